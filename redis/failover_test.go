package redis

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
	"github.com/anylock/lock/redis/internal/redistest"
)

// If a server restarts without its data, the holder's next renewal reports the loss, tokens still increase, and waiters
// are served.
func TestRestartWithoutPersistence(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, "--save", "", "--appendonly", "no")
	a, b := opened(t, "redis://"+s.Addr), opened(t, "redis://"+s.Addr)
	l := acquire(t, a, req("k", time.Hour))
	var queue []<-chan outcome
	for i := range 4 {
		queue = append(queue, queueUp(t, b, waiting("k", time.Hour), i+1))
	}
	s.Kill()
	s.Start()
	last := l.Token()
	var got sync.WaitGroup
	tokens := make(chan uint64, len(queue))
	for _, done := range queue {
		got.Go(func() {
			o := <-done
			if o.Err != nil {
				t.Error(o.Err)
				return
			}
			tokens <- o.Lease.Token()
			_ = o.Lease.Release(context.Background())
		})
	}
	got.Wait()
	close(tokens)
	for token := range tokens {
		if token <= last {
			t.Errorf("token %d after %d", token, last)
		}
		last = token
	}
	until(t, soon, "a renewal reports the loss", func() bool {
		return errors.Is(l.Renew(context.Background(), time.Hour), backend.ErrLost)
	})
	release(t, acquire(t, a, req("k", time.Hour)))
}

// Tokens increase even if the counter or all data is lost, or the server's clock steps back.
func TestTokensSurviveLoss(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	c := s.raw(t)
	ctx := context.Background()
	b := opened(t, s.URL)
	fence := b.naming.names("k").fence
	var last uint64
	next := func(what string) {
		t.Helper()
		l := acquire(t, b, req("k", time.Minute))
		if l.Token() <= last || l.Token() >= 1<<55 {
			t.Errorf("%s: token %d after %d", what, l.Token(), last)
		}
		last = l.Token()
		release(t, l)
		ahead := time.Until(time.UnixMicro(int64(last)))
		if ttl := c.PTTL(ctx, fence).Val(); ttl < ahead+23*time.Hour {
			t.Errorf("%s: the fence lives for %v, its token is %v ahead of the clock", what, ttl, ahead)
		}
	}
	for range 100 {
		next("in a row")
	}
	c.Del(ctx, fence)
	next("counter deleted")
	c.FlushDB(ctx)
	next("all data deleted")
	// At the beginning of a second, the microseconds of the time begin with zeros, which the token must keep.
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second + 5*time.Millisecond))) // sleeps: a new second
	c.FlushDB(ctx)
	next("all data deleted at the beginning of a second")
	// The counter is an hour ahead, as after a step back of the clock. Tokens continue from the counter.
	last += uint64(time.Hour / time.Microsecond)
	c.Set(ctx, fence, last, time.Minute)
	for range 10 {
		next("clock stepped back")
	}
	// A waiter's place in the queue is a number from the same counter.
	l := acquire(t, b, req("k", time.Minute))
	c.Del(ctx, fence)
	done := queueUp(t, b, waiting("k", time.Minute), 1)
	if ttl := c.PTTL(ctx, fence).Val(); ttl < 23*time.Hour {
		t.Errorf("a counter lost before an arrival in the queue lives for %v", ttl)
	}
	release(t, l)
	release(t, granted(t, done, soon).Lease)
}

// Waiters survive a Sentinel failover, and tokens increase across it. With MinReplicas, the lease survives too.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "Sentinels")
	set := servers.RedisSentinel(t)
	url := sentinelURLOf(set) + "?lock_min_replicas=1"
	holder := opened(t, url)
	l := acquire(t, holder, req("held", time.Hour))
	l2 := acquire(t, holder, req("contended", time.Hour))
	// After the failover there is no replica, so the waiters must not require one.
	var queue []<-chan outcome
	for i := range 8 {
		queue = append(queue, queueUp(t, opened(t, sentinelURLOf(set)), waiting("contended", time.Hour), i+1))
	}
	set.Master.Kill()
	begun := time.Now()
	after := opened1(t, sentinelURLOf(set))
	t.Logf("the new master serves after %v", time.Since(begun))
	if _, err := after.Acquire(context.Background(), req("held", time.Hour)); !errors.Is(err, backend.ErrHeld) {
		t.Fatalf("a lease that a replica had acknowledged was lost in the failover: %v", err)
	}
	h, err := after.Inspect(context.Background(), "held")
	if err != nil || h.Token != l.Token() {
		t.Fatalf("inspect: %+v, %v, want token %d", h, err, l.Token())
	}
	until(t, 20*time.Second, "the holder releases", func() bool { return l2.Release(context.Background()) == nil })
	last := l2.Token()
	// The replica may have missed the latest waiters. They queue again, so waiters may be served out of order.
	served := make(chan outcome, len(queue))
	for _, done := range queue {
		go func() { served <- <-done }()
	}
	for range queue {
		o := granted(t, served, 30*time.Second)
		if o.Lease.Token() <= last {
			t.Errorf("token %d after %d", o.Lease.Token(), last)
		}
		last = o.Lease.Token()
		release(t, o.Lease)
	}
	t.Logf("all waiters were served %v after the master's death", time.Since(begun))
}

// opened1 opens a store. It retries until the store grants a lease.
func opened1(t *testing.T, url string) *Backend {
	t.Helper()
	var b *Backend
	until(t, 60*time.Second, "the store opens", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		opened, err := openURL(ctx, url)
		if err != nil {
			return false
		}
		// For a moment, the old master may still reply, or the new one may not reply yet.
		l, err := opened.Acquire(ctx, req("probe", minTTL))
		if err != nil {
			_ = opened.Close()
			return false
		}
		_ = l.Release(ctx)
		b = opened
		return true
	})
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// In a cluster, requests follow a slot that moves to another server, during the move and after it.
func TestClusterMovesSlot(t *testing.T) {
	t.Parallel()
	nodes := cluster(t)
	ctx := context.Background()
	b := opened(t, "redis+cluster://"+nodes[0].Addr)
	l := acquire(t, b, req("k", time.Hour))
	done := queueUp(t, b, waiting("k", time.Hour), 1)
	n := b.naming.names("k")
	clients := make([]*redis.Client, len(nodes))
	ids := make([]string, len(nodes))
	from := -1
	for i, s := range nodes {
		clients[i] = redistest.Raw(t, s.Addr)
		ids[i] = clients[i].Do(ctx, "CLUSTER", "MYID").Val().(string)
		if clients[i].Exists(ctx, n.lock).Val() == 1 {
			from = i
		}
	}
	to := (from + 1) % len(nodes)
	must := func(c *redis.Client, args ...any) {
		t.Helper()
		if err := c.Do(ctx, args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	sl := endpoint.Slot("k")
	must(clients[to], "CLUSTER", "SETSLOT", sl, "IMPORTING", ids[from])
	must(clients[from], "CLUSTER", "SETSLOT", sl, "MIGRATING", ids[to])
	host, port, _ := strings.Cut(nodes[to].Addr, ":")
	must(clients[from], "MIGRATE", host, port, "", 0, 5000, "KEYS", n.lock, n.queue, n.fence)
	if err := l.Renew(ctx, time.Hour); err != nil { // the keys have moved, but not the slot: ASK
		t.Errorf("renew while the slot is moving: %v", err)
	}
	for _, c := range []*redis.Client{clients[to], clients[from], clients[3-to-from]} {
		must(c, "CLUSTER", "SETSLOT", sl, "NODE", ids[to])
	}
	token := l.Token()
	release(t, l) // MOVED
	o := granted(t, done, soon)
	if o.Lease.Token() <= token {
		t.Errorf("token %d after %d", o.Lease.Token(), token)
	}
	release(t, o.Lease)
}

// If too few replicas acknowledge, nothing is granted or renewed, and no key remains.
func TestMinReplicas(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) { minReplicas(t, ownDatabase(t).URL) })
	t.Run("cluster", func(t *testing.T) { minReplicas(t, "redis+cluster://"+cluster(t)[0].Addr) })
}

func minReplicas(t *testing.T, url string) {
	plain, b := opened(t, url), opened(t, url+"?lock_min_replicas=1&timeout=3s") // WAIT gets half of it
	_, err := b.Acquire(context.Background(), req("k", time.Hour))
	if !errors.Is(err, exchange.ErrReplicas) || !strings.Contains(err.Error(), "0 of 1") {
		t.Errorf("%s: acquire without replicas: %v", url, err)
	}
	var l backend.Lease
	until(t, soon, "the key is free again", func() bool {
		l, err = plain.Acquire(context.Background(), req("k", time.Hour))
		return err == nil
	})
	if _, err := b.Acquire(context.Background(), req("k", time.Hour)); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("%s: acquire of a held key: %v, want held", url, err)
	}
	release(t, l)
	// A renewal fails if too few replicas acknowledge it, alone and in a batch.
	r := req("k2", time.Hour)
	value := lockValue(1, r.Owner)
	l, err = b.leases.Grant(context.Background(), r, kit.Grant{
		Token: 1, Sent: time.Now(), TTL: time.Hour, Data: &leaseData{names: b.naming.names("k2"), value: value},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.client.Set(context.Background(), b.naming.lock("k2"), value, time.Hour)
	if err := l.Renew(context.Background(), time.Hour); !errors.Is(err, exchange.ErrReplicas) {
		t.Errorf("%s: renew without replicas: %v", url, err)
	}
	if errs := b.RenewBatch(context.Background(), []backend.Renewal{{Lease: l, TTL: time.Hour}}); !errors.Is(errs[0],
		exchange.ErrReplicas) {
		t.Errorf("%s: batch without replicas: %v", url, errs[0])
	}
	release(t, l)
}

// A waiter survives a time without its replicas.
func TestWaiterOutlivesMissingReplicas(t *testing.T) {
	t.Parallel()
	master := servers.Redis(t)
	url := "redis://" + master.Addr
	l := acquire(t, opened(t, url), req("k", time.Hour))
	done := queueUp(t, opened(t, url+"?lock_min_replicas=1&timeout=500ms"), waiting("k", time.Hour), 1)
	release(t, l)
	const outage = 2 * time.Second // long enough for several failed attempts
	select {
	case o := <-done:
		t.Fatalf("a waiter without replicas: %v", o.Err)
	case <-time.After(outage):
	}
	_ = servers.Redis(t, "--replicaof", "127.0.0.1", port(master.Addr))
	release(t, granted(t, done, 2*soon).Lease)
}

// A grant that only some of the required replicas acknowledge does not count.
func TestFewerReplicasThanRequired(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr)+"?lock_min_replicas=2&timeout=4s") // WAIT gets half of it
	p.Set(func(p *storetest.Proxy) {
		p.Replies = func(piece []byte) bool { // of the two replicas that WAIT should count, there seems to be one
			if n := len(piece) - len(":0\r\n"); n >= 0 && string(piece[n:]) == ":0\r\n" {
				piece[n+1] = '1'
			}
			return true
		}
	})
	_, err := b.Acquire(context.Background(), req("k", time.Minute))
	p.Set(func(p *storetest.Proxy) { p.Replies = nil })
	if !errors.Is(err, exchange.ErrReplicas) || !strings.Contains(err.Error(), "1 of 2") {
		t.Errorf("acquire with one of two replicas: %v", err)
	}
}

// The tokens of readers too increase if the server's clock steps back, beside other readers or alone.
func TestReadersTokensIncreaseAfterClockStep(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	last := uint64(time.Now().Add(time.Hour).UnixMicro()) // the counter of a clock that was an hour ahead
	s.raw(t).Set(context.Background(), b.naming.names("k").fence, last, time.Minute)
	for i := range 3 {
		l := acquire(t, b, shared(req("k", time.Minute)))
		if l.Token() <= last {
			t.Errorf("reader %d: token %d after %d", i, l.Token(), last)
		}
		last = l.Token()
	}
}
