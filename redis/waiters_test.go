package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/redistest"
)

// dead queues a waiter whose process has died. turn is its score in the queue.
func dead(t *testing.T, c *redis.Client, b *Backend, key string, turn float64) {
	t.Helper()
	n := b.naming.names(key)
	member := strings.Repeat("d", 32) + fmt.Sprintf("dead owner %v", turn)
	if err := c.ZAdd(context.Background(), n.queue, redis.Z{Score: turn, Member: member}).Err(); err != nil {
		t.Fatal(err)
	}
	c.PExpire(context.Background(), n.queue, time.Minute)
}

// Each dead waiter in front of a live one delays it by at most one reservation, besides the time until its recheck.
func TestDeadWaitersCostOneReservation(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	c := s.raw(t)
	holder, next := opened(t, s.URL), opened(t, s.URL)
	for gone := range 4 {
		limit := deadWaitersCost(gone)
		took := leastOf(func(n int) (took time.Duration, enough bool) {
			key := fmt.Sprint("k", gone, "-", n)
			l := acquire(t, holder, req(key, time.Hour))
			done := queueUp(t, next, waiting(key, time.Hour), 1)
			for i := range gone {
				dead(t, c, next, key, float64(i)) // in front of the live waiter
			}
			begun := time.Now()
			release(t, l)
			o := granted(t, done, maxRecheck+soon)
			release(t, o.Lease)
			took = o.At.Sub(begun)
			t.Logf("%d dead waiters: %v", gone, took)
			return took, took <= limit
		})
		if took > limit {
			t.Errorf("with %d dead waiters before it a waiter was granted after %v, want within %v", gone, took, limit)
		}
	}
}

// reservation equals RESERVATION in reserve.lua.
const reservation = 500 * time.Millisecond

// deadWaitersCost returns how long dead waiters may delay the next waiter, on a machine that is not too busy. A key
// that is reserved for a dead waiter is free again after its reservation. The next waiter finds the first free key when
// it rechecks, and then knows when each reservation ends.
func deadWaitersCost(dead int) time.Duration {
	const slack = 200 * time.Millisecond
	if dead == 0 {
		return slack
	}
	return maxRecheck + time.Duration(dead-1)*(reservation+timerJitter) + slack
}

// leastOf repeats a measurement until the time is short enough, at most attempts times. It returns the shortest time.
func leastOf(measure func(n int) (took time.Duration, enough bool)) time.Duration {
	least, enough := measure(0)
	for n := 1; n < attempts && !enough; n++ {
		var took time.Duration
		took, enough = measure(n)
		least = min(least, took)
	}
	return least
}

// No notification is missed, however early it arrives. Two clients pass a key to each other. A missed notification
// would delay a hand-off until its reservation expires.
func TestNoHandOffIsMissed(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	clients := []*Backend{opened(t, s.URL), opened(t, s.URL)}
	// A busy machine may pause for that long a few times, and delay one or two hand-offs each time. A real fault delays
	// more, at each attempt.
	const rounds, pauses = 1000, 10
	slow := rounds
	for n := 0; n < attempts && slow > pauses && !t.Failed(); n++ {
		slow = min(slow, slowHandOffs(t, clients, rounds))
	}
	if slow > pauses {
		t.Errorf("%d slow hand-offs", slow)
	}
}

// slowHandOffs makes the clients pass a key to each other. It returns how many hand-offs took as long as a reservation.
func slowHandOffs(t *testing.T, clients []*Backend, rounds int) int {
	var slow atomic.Int32
	var passing sync.WaitGroup
	for _, b := range clients {
		passing.Go(func() {
			for range rounds {
				begun := time.Now()
				l, err := b.Acquire(context.Background(), waiting("k", time.Hour))
				if took := time.Since(begun); took > reservation-50*time.Millisecond {
					t.Logf("a hand-off took %v", took)
					slow.Add(1)
				}
				if l != nil {
					err = errors.Join(err, l.Release(context.Background()))
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	passing.Wait()
	return int(slow.Load())
}

// Waiters are still served if all subscriptions are killed, even if a notification is lost with its subscription.
func TestKilledSubscriptions(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	c := redistest.Raw(t, s.Addr)
	ctx := context.Background()
	holder := opened(t, "redis://"+s.Addr)
	l := acquire(t, holder, req("k", time.Hour))
	var queue []<-chan outcome
	for i := range 8 {
		queue = append(queue, queueUp(t, opened(t, "redis://"+s.Addr), waiting("k", time.Hour), i+1))
	}
	kill := func() {
		if err := c.ClientKillByFilter(ctx, "TYPE", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
	}
	kill()
	begun := time.Now()
	for _, done := range queue {
		release(t, l)
		kill() // the notification may be lost
		l = granted(t, done, soon).Lease
	}
	release(t, l)
	if took := time.Since(begun); took > 8*(reservation+timerJitter)+soon/2 {
		t.Errorf("8 hand-offs with killed subscriptions took %v", took)
	}
}

// If a subscription is open but dead, the waiter that misses its notification detects this, and the subscription is
// opened again.
func TestSilentSubscription(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	subscription := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.URL)
	deaf := redis.NewClient(&redis.Options{DB: s.Number, Addr: subscription.Addr})
	defer deaf.Close()
	b.inbox.client = deaf // only the subscription uses the proxy
	holder := opened(t, s.URL)
	l := acquire(t, holder, req("k", time.Hour))
	done := queueUp(t, b, waiting("k", time.Hour), 1)
	subscription.Set(func(p *storetest.Proxy) { p.Silent = true })
	begun := time.Now()
	release(t, l) // the notification is lost
	l = acquire(t, holder, waiting("k", time.Hour))
	t.Logf("the next one got it after %v", time.Since(begun))
	// When its timer fires, the deaf waiter finds that its turn has passed, and queues again.
	until(t, maxRecheck+soon, "the deaf waiter queues again", func() bool {
		h, err := holder.Inspect(context.Background(), "k")
		return err == nil && h.Waiters == 1
	})
	until(t, soon, "the subscription is given up", func() bool { return !b.inbox.ready() })
	subscription.Set(func(p *storetest.Proxy) { p.Silent = false })
	subscription.Cut()
	until(t, soon, "the subscription is made anew", b.inbox.ready)
	took := leastOf(func(n int) (took time.Duration, enough bool) {
		if n > 0 {
			l = acquire(t, holder, req("k", time.Hour))
			done = queueUp(t, b, waiting("k", time.Hour), 1)
		}
		begun := time.Now()
		release(t, l)
		o := granted(t, done, soon)
		release(t, o.Lease)
		took = o.At.Sub(begun)
		return took, took <= maxRecheck/2
	})
	if took > maxRecheck/2 { // its timer fires after about maxRecheck
		t.Errorf("with its subscription made anew the waiter was granted after %v", took)
	}
}

// A waiter that has lost its place without a notification ends only the subscription that existed when its last request
// was sent. It ends no newer one, nor a subscription that has notified it.
func TestWaiterEndsOnlyItsSubscription(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	ctx := t.Context()
	b := opened(t, s.URL)
	defer release(t, acquire(t, opened(t, s.URL), req("k", time.Hour)))
	a := &attempt{b: b, r: waiting("k", time.Hour), ttl: time.Hour, lease: &leaseData{names: b.naming.names("k")}}
	defer a.unregister()
	if err := b.inbox.awaitSubscription(ctx, soon); err != nil {
		t.Fatal(err)
	}
	state := func() <-chan struct{} {
		b.inbox.mu.Lock()
		defer b.inbox.mu.Unlock()
		return b.inbox.changed
	}
	missTurn := func() {
		t.Helper()
		if n := s.raw(t).Del(ctx, a.lease.names.queue).Val(); n != 1 {
			t.Fatal("the waiter is not queued")
		}
		if _, err := a.try(ctx); !errors.Is(err, backend.ErrHeld) {
			t.Fatal(err)
		}
	}
	staysWhen := func(what string) {
		t.Helper()
		before := state()
		missTurn()
		time.Sleep(soon / 100) // sleeps: the subscription would end at once
		if state() != before {
			t.Errorf("%s: the subscription has ended", what)
		}
	}
	if _, err := a.try(ctx); !errors.Is(err, backend.ErrHeld) || !a.queued {
		t.Fatalf("%v, queued %v", err, a.queued)
	}
	before := state()
	b.inbox.current().end()
	until(t, soon, "there is a new subscription", func() bool { return state() != before && b.inbox.ready() })
	<-a.waiter // the new subscription wakes all waiters
	staysWhen("a new subscription")
	a.waiter.notify()
	staysWhen("a notified waiter")
	b.inbox.notify("another waiter")
	staysWhen("a message to another waiter")
	before = state()
	missTurn()
	until(t, soon, "the subscription that lost the notification is replaced", func() bool { return state() != before })
}

// An Acquire that does not wait never overtakes a waiter, even if the key is free at that moment.
func TestTryDoesNotBarge(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	c := s.raw(t)
	b := opened(t, s.URL)
	took := leastOf(func(int) (took time.Duration, enough bool) {
		l := acquire(t, b, req("k", time.Hour))
		dead(t, c, b, "k", 1)
		begun := time.Now()
		release(t, l)
		l, err := b.Acquire(context.Background(), req("k", time.Hour))
		h, ok := held1(err)
		switch {
		case err == nil && time.Since(begun) > reservation-50*time.Millisecond: // the reservation had expired
			release(t, l)
			return maxRecheck, false
		case !ok || !errors.Is(err, backend.ErrHeld) || !strings.HasPrefix(h.Holder.Owner, "dead owner") ||
			h.Holder.TTL > reservation:
			t.Fatalf("acquire of a reserved key: %v, want held by the waiter, for a reservation", err)
		}
		until(t, soon, "the key is free after the reservation", func() bool {
			l, err := b.Acquire(context.Background(), req("k", time.Hour))
			if err == nil {
				release(t, l)
			}
			return err == nil
		})
		took = time.Since(begun)
		if took < reservation-50*time.Millisecond {
			t.Errorf("the reservation for a dead waiter lasted %v, want %v", took, reservation)
		}
		return took, took <= reservation+500*time.Millisecond
	})
	if took > reservation+500*time.Millisecond {
		t.Errorf("the reservation for a dead waiter lasted %v, want %v", took, reservation)
	}
	// The key is free but has a queue, as after the death of a holder. The attempt hands the key to the queue.
	dead(t, c, b, "k", 1)
	if _, err := b.Acquire(context.Background(), req("k", time.Hour)); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("acquire of a free key with a queue: %v, want held", err)
	}
}

// If a waiter is cancelled while the key is reserved for it, the next waiter gets the key at once.
func TestCancelledReservationIsHandedOn(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	c := s.raw(t)
	const soonEnough = reservation * 4 / 5 // without a notification, a waiter waits for all of it
	took := leastOf(func(int) (took time.Duration, enough bool) {
		l := acquire(t, b, req("k", time.Hour))
		done := queueUp(t, b, waiting("k", time.Hour), 1)
		r := req("k", time.Hour)
		n := b.naming.names("k")
		first := b.inbox.id + r.Owner
		c.ZAdd(context.Background(), n.queue, redis.Z{Score: 1, Member: first})
		begun := time.Now()
		release(t, l) // reserves the key for r, which never acquires it
		h, ierr := b.Inspect(context.Background(), "k")
		removed, _, rerr := b.release(context.Background(), n, lockValue(0, r.Owner), false)
		inTime := time.Since(begun) < reservation-50*time.Millisecond // the reservation had not expired by then
		if inTime && (ierr != nil || h.Owner != r.Owner || h.Token != 0) {
			t.Fatalf("inspect of a reserved key: %+v, %v", h, ierr)
		}
		if inTime && (!removed || rerr != nil) {
			t.Fatalf("giving up a reservation: %v, %v", removed, rerr)
		}
		o := granted(t, done, soon)
		release(t, o.Lease)
		took = o.At.Sub(begun)
		return took, took <= soonEnough
	})
	if took > soonEnough {
		t.Errorf("a reservation that was given up was handed on after %v", took)
	}
}

// All keys of a contended lock expire, and a cancelled waiter leaves the queue. Released locks leave only fences
// behind.
func TestStateExpires(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	c := s.raw(t)
	ctx := context.Background()
	b := opened(t, s.URL)
	l := acquire(t, b, req("k", time.Hour))
	wctx, cancel := context.WithCancel(ctx)
	done := startAcquire(wctx, b, waiting("k", time.Hour))
	n := b.naming.names("k")
	until(t, soon, "queued", func() bool { return c.ZCard(ctx, n.queue).Val() == 1 })
	for _, key := range c.Keys(ctx, "*").Val() {
		if c.PTTL(ctx, key).Val() <= 0 {
			t.Errorf("%q never expires", key)
		}
	}
	cancel()
	if o := <-done; !errors.Is(o.Err, context.Canceled) {
		t.Fatalf("cancelled: %v", o.Err)
	}
	until(t, soon, "the cancelled waiter has left the queue", func() bool { return c.Exists(ctx, n.queue).Val() == 0 })
	release(t, l)
	// Many released locks leave at most one fence per slot, and nothing else.
	for i := range 2000 {
		release(t, acquire(t, b, req(fmt.Sprint("name-", i), time.Hour)))
	}
	for _, key := range c.Keys(ctx, "*").Val() {
		if !strings.HasSuffix(key, "}fence") {
			t.Errorf("%q was left behind", key)
		}
	}
}

// A waiter keeps its place in the queue for longer than its TTL.
func TestPlaceOutlivesTTL(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	a, b := opened(t, s.URL), opened(t, s.URL)
	const ttl = 2 * time.Second // a grant that arrives later has expired
	l := acquire(t, a, req("k", time.Hour))
	first := queueUp(t, a, waiting("k", ttl), 1)
	time.Sleep(2 * ttl) // sleeps: the TTL must pass
	second := queueUp(t, b, waiting("k", time.Hour), 2)
	release(t, l)
	o := granted(t, first, soon)
	_ = o.Lease.Release(context.Background()) // it may have expired
	next := granted(t, second, soon)
	if o.Lease.Token() > next.Lease.Token() {
		t.Error("the second waiter came first")
	}
	release(t, next.Lease)
}

// If the server forbids subscriptions, an Acquire that has to wait fails with that reason. An Acquire of a free key
// succeeds.
func TestForbiddenSubscription(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	c := redistest.Raw(t, s.Addr)
	ctx := context.Background()
	// These include all rights in the package comment, except the channels.
	rules := []any{
		"ACL", "SETUSER", "app", "on", ">secret", "~anylock:*", "resetchannels",
		"+@scripting", "+@read", "+@write", "+@pubsub", "+@connection", "+time", "+wait", "+info",
	}
	if err := c.Do(ctx, rules...).Err(); err != nil {
		t.Fatal(err)
	}
	b := opened(t, "redis://app:secret@"+s.Addr)
	l := acquire(t, b, waiting("k", time.Minute))
	_, err := b.Acquire(ctx, waiting("k", time.Minute))
	if err == nil || !strings.Contains(err.Error(), "NOPERM") || !strings.Contains(err.Error(), "subscribe") {
		t.Errorf("waiting without the right to subscribe: %v", err)
	}
	release(t, l)
	if err := c.Do(ctx, "ACL", "SETUSER", "app", "&anylock:*").Err(); err != nil {
		t.Fatal(err)
	}
	b = opened(t, "redis://app:secret@"+s.Addr)
	l = acquire(t, b, req("k", time.Minute))
	done := queueUp(t, b, waiting("k", time.Minute), 1)
	release(t, l)
	release(t, granted(t, done, soon).Lease)
}

// Waiters keep their order if the counter from which their places come is lost.
func TestOrderSurvivesLossOfCounter(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	l := acquire(t, b, req("k", time.Hour))
	first := queueUp(t, b, waiting("k", time.Hour), 1)
	s.raw(t).Del(context.Background(), b.naming.names("k").fence)
	second := queueUp(t, b, waiting("k", time.Hour), 2)
	release(t, l)
	l = granted(t, first, soon).Lease
	select {
	case o := <-second:
		t.Errorf("the second waiter was granted the key before the first released it: %v", o.Err)
	default:
	}
	release(t, l)
	release(t, granted(t, second, soon).Lease)
}

// A waiter with a short TTL survives seconds without a subscription. A subscription that the server does not confirm in
// time is replaced, because its connection may be dead.
func TestShortLeaseWaitsForSubscription(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	p := storetest.NewProxy(t, s.Addr)
	holder, b := opened(t, s.URL), opened(t, s.at(p.Addr))
	l := acquire(t, holder, req("k", time.Hour))
	p.Set(func(p *storetest.Proxy) {
		p.Replies = func(piece []byte) bool { return !bytes.Contains(piece, []byte("subscribe")) }
	})
	done := startAcquire(context.Background(), b, waiting("k", minTTL))
	select {
	case o := <-done:
		t.Fatalf("a waiter without a subscription: %v", o.Err)
	case <-time.After(20 * minTTL): // sleeps: the outage
	}
	p.Set(func(p *storetest.Proxy) { p.Replies = nil })
	storetest.Queued(t, holder, "k", 1)
	release(t, l)
	if o := <-done; o.Err == nil {
		_ = o.Lease.Release(context.Background()) // it may have expired on a busy machine
	} else if !errors.Is(o.Err, backend.ErrLost) {
		t.Error(o.Err)
	}
}
