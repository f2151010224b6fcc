package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
	"github.com/anylock/lock/redis/internal/redistest"
)

// Clients that contend for a key, and release it at once, do not block each other: they make at least 20 hand-offs a
// second. There is only one owner at a time, and tokens increase.
func TestContention(t *testing.T) {
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	const lasts = 3 * time.Second
	clients := make([]*Backend, 8)
	for i := range clients {
		clients[i] = f.open()
	}
	m := &minter{t: t}
	var waits []time.Duration
	for range attempts {
		if waits = contend(t, clients, lasts, m); len(waits) >= 20*int(lasts.Seconds()) {
			break
		}
		t.Logf("%d hand-offs in %v", len(waits), lasts)
	}
	slices.Sort(waits)
	if len(waits) < 20*int(lasts.Seconds()) {
		t.Fatalf("%d hand-offs between %d clients in %v", len(waits), len(clients), lasts)
	}
	t.Logf("%.0f hand-offs/s between %d clients, wait p50 %v, p99 %v, most %v", float64(len(waits))/lasts.Seconds(),
		len(clients),
		waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1])
}

// contend makes clients compete for one key, and returns how long each owner waited.
func contend(t *testing.T, clients []*Backend, lasts time.Duration, m *minter) (waits []time.Duration) {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		inside atomic.Int32
	)
	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	defer cancel()
	for _, r := range clients {
		wg.Go(func() {
			for {
				begun := time.Now()
				l, err := r.Acquire(ctx, waiting("k", 30*time.Second))
				if err != nil {
					if !kit.Ended(ctx) {
						t.Error(err)
					}
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two owners at once")
				}
				mu.Lock()
				waits = append(waits, time.Since(begun))
				if l.Token() <= m.last {
					t.Errorf("token %d after %d", l.Token(), m.last)
				}
				m.last = l.Token()
				mu.Unlock()
				inside.Add(-1)
				if err := l.Release(context.Background()); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	wg.Wait()
	return waits
}

// If two clients use the same owner, the loser never deletes the winner's key, because the nodes distinguish the
// clients.
func TestSharedOwner(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	a, b := f.open(), f.open()
	r := backend.Request{Key: "k", Owner: "constant", TTL: 30 * time.Second}
	l := acquire(t, a, r)
	f.whole(a, l) // otherwise, a node that the request has not reached may grant the key to the loser
	for range 20 {
		var held *backend.HeldError
		if _, err := b.Acquire(context.Background(), r); !errors.As(err, &held) || held.Holder.Owner != r.Owner {
			t.Fatalf("a second client with the same owner: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	w := r
	w.Wait = true
	if _, err := b.Acquire(ctx, w); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a second client that waits: %v", err)
	}
	time.Sleep(lateArrival + 2*cleanupGap) // sleeps: the period in which a clean-up could delete the winner's key
	for i, n := range f.nodes {
		if len(f.keys(n)) != 1 {
			t.Errorf("node %d has lost the winner's key", i)
		}
	}
	if err := l.Renew(context.Background(), 30*time.Second); err != nil {
		t.Error(err)
	}
	release(t, l)
}

// An acquire that fails leaves no key on any node, however it fails.
func TestFailureLeavesNothing(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	p := storetest.NewProxy(t, f.nodes[2].Addr)
	r := opened(t, through([]string{f.nodes[0].Addr, f.nodes[1].Addr, p.Addr}))
	ctx := context.Background()
	lock := newNaming(endpoint.DefaultNamespace).lock
	foreign := func(key string, nodes ...*servers.Server) {
		for _, n := range nodes {
			if err := redistest.Raw(t, n.Addr).Set(ctx, lock(key), "1:1:0123456789abcdefsomebody",
				time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	nothing := func(key string, nodes ...*servers.Server) {
		t.Helper()
		until(t, soon, "no node has "+key, func() bool {
			for _, n := range nodes {
				if slices.Contains(f.keys(n), lock(key)) {
					return false
				}
			}
			return true
		})
	}
	for i := range f.nodes { // a majority refuses, and each node in turn grants
		key := fmt.Sprint("refused", i)
		foreign(key, f.nodes[(i+1)%3], f.nodes[(i+2)%3])
		var held *backend.HeldError
		if _, err := r.Acquire(ctx, req(key, 30*time.Second)); !errors.As(err, &held) || held.Holder.Owner != "somebody" {
			t.Fatalf("acquire of a held key: %v", err)
		}
		nothing(key, f.nodes[i])
	}
	// The reply of the granting node is lost. Then the node does not reply for a while.
	foreign("lost", f.nodes[0], f.nodes[1])
	lost := p.LoseReply()
	if _, err := r.Acquire(ctx, req("lost", 30*time.Second)); !errors.Is(err, backend.ErrHeld) {
		t.Fatal(err)
	}
	<-lost
	nothing("lost", f.nodes[2])
	foreign("silent", f.nodes[0], f.nodes[1])
	f.nodes[2].Freeze()
	cctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := r.Acquire(cctx, req("silent", 30*time.Second)); err == nil {
		t.Fatal("granted")
	}
	time.Sleep(2 * exchange.DefaultTimeout) // sleeps: the requests must time out in the server's buffers
	f.nodes[2].Thaw()
	until(t, soon, "no cleanup is left", func() bool { return !r.hasCleanups() })
	nothing("silent", f.nodes[2])
	// The context ends at any moment.
	for i := range 50 {
		cctx, cancel := context.WithTimeout(ctx, time.Duration(i)*20*time.Microsecond)
		l, err := r.Acquire(cctx, req(fmt.Sprint("cancelled", i), 30*time.Second))
		cancel()
		if err == nil {
			release(t, l)
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	until(t, soon, "nothing stays behind", func() bool {
		for _, n := range f.nodes {
			for _, k := range f.keys(n) {
				if k != lock("lost") && k != lock("silent") && k != lock("refused0") && k != lock("refused1") &&
					k != lock("refused2") {
					return false
				}
			}
		}
		return true
	})
}

// A batch renews many leases in a few requests. Each lease gets its own result, and a lease that one node has lost is
// put back there.
func TestBatch(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	ctx := context.Background()
	lock := newNaming(endpoint.DefaultNamespace).lock
	const n = 200
	var batch []backend.Renewal
	for i := range n {
		batch = append(batch, backend.Renewal{Lease: acquire(t, r, req(fmt.Sprint("k", i), 45*time.Second)),
			TTL: 50 * time.Second})
	}
	release(t, acquire(t, r, req("other", 45*time.Second)))
	for _, err := range r.RenewBatch(ctx, batch) { // loads the scripts
		if err != nil {
			t.Fatal(err)
		}
	}
	waitIdle(t, r) // late requests would be counted, and a lease whose acquire is in progress cannot be missing
	del := func(key string, nodes ...int) {
		for _, i := range nodes {
			if err := redistest.Raw(t, f.nodes[i].Addr).Del(ctx, lock(key)).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	del("k0", 0, 1, 2)
	del("k1", 1, 2) // only a minority still has it: lost
	del("k2", 1)
	before := f.calls()
	errs := r.RenewBatch(ctx, batch)
	for i, err := range errs {
		if want := i < 2; errors.Is(err, backend.ErrLost) != want || !want && err != nil {
			t.Fatalf("number %d: %v", i, err)
		}
	}
	until(t, soon, "the lost key is back on its node", func() bool {
		ttl := redistest.Raw(t, f.nodes[1].Addr).PTTL(ctx, lock("k2")).Val()
		return ttl > 40*time.Second
	})
	const scripts = (n + exchange.ScriptLeases - 1) / exchange.ScriptLeases
	for i, after := range f.calls() {
		// The other scripts are a repair (sent again with its text), removals of lost leases, and late requests from before.
		if d := after - before[i]; d < scripts || d > 3*scripts {
			t.Errorf("node %d ran %d scripts for %d leases, want %d", i, d, n, scripts)
		}
	}
	for i, k := range []string{"k0", "k1"} {
		for _, s := range f.nodes[1:] {
			if slices.Contains(f.keys(s), lock(k)) {
				t.Errorf("a lease that was lost, number %d, is back", i)
			}
		}
	}
	if errs := r.RenewBatch(ctx, []backend.Renewal{{Lease: batch[5].Lease, TTL: 2 * time.Minute},
		batch[6]}); !errors.Is(errs[0], backend.ErrInvalid) || errs[1] != nil {
		t.Errorf("one of two over the longest TTL: %v", errs)
	}
	// With a frozen node, a batch still renews every lease.
	f.nodes[0].Freeze()
	begun := time.Now()
	for i, err := range r.RenewBatch(ctx, batch[2:]) {
		if err != nil {
			t.Fatalf("number %d with a frozen node: %v", i, err)
		}
	}
	t.Logf("%d leases renewed in %v with a frozen node", n-2, time.Since(begun))
	f.nodes[0].Thaw()
}

// After SCRIPT FLUSH, a renewal and a release still succeed.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	for range 3 {
		l := acquire(t, r, req("k", time.Minute))
		for _, n := range f.nodes {
			if err := redistest.Raw(t, n.Addr).ScriptFlush(context.Background()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Renew(context.Background(), time.Minute); err != nil {
			t.Fatal(err)
		}
		release(t, l)
	}
}

// After all leases have ended, a node keeps only a fence for each slot in use, and the birth record.
func TestResidue(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	f.bootstrap()
	r := f.open(patient)
	const keys = 300
	for i := range keys {
		release(t, acquire(t, r, req(fmt.Sprintf("name-%d", i%10), time.Minute)))
	}
	until(t, soon, "ten fences and a birth", func() bool {
		for _, n := range f.nodes {
			if redistest.Raw(t, n.Addr).DBSize(context.Background()).Val() != 11 {
				return false
			}
		}
		return true
	})
}
