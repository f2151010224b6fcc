package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

var emptyChecks = []Check{
	{
		Name: "TokensSurviveRestart",
		Rule: "rule 7: tokens increase per key across restarts of the store: of free keys, for waiters, after expiry, and " +
			"while requests are cut off",
		Needs: []Need{needsRestart, needsRestartTokens},
		alone: true,
		run:   tokensSurviveRestart,
	},
	{
		Name:  "EmptiedStoreServes",
		Rule:  "rule 9: when a store has lost its data its clients serve every method again, and who waited gets the key",
		Needs: []Need{needsRestartEmpty},
		alone: true,
		run:   emptiedStoreServes,
	},
	{
		Name: "EmptiedStoreLosesLeases",
		Rule: "rules 5 and 6: when a store has lost its data a holder learns of it by its deadline, " +
			"revives nothing, and spares the next",
		Needs: []Need{needsRestartEmpty},
		alone: true,
		run:   emptiedStoreLosesLeases,
	},
	{
		Name:  "TokensSurviveEmptying",
		Rule:  "rule 7: tokens strictly increase per key when the store has lost its data, where Guarantees.Fencing says so",
		Needs: []Need{needsRestartEmpty, needsLossTokens},
		alone: true,
		run:   tokensSurviveEmptying,
	},
}

func emptiedStoreServes(t *trial) {
	for range 2 { // in the first round, clients may have state that they lack in the second
		held := t.acquire(t.a, t.newKey(), t.g.Round(4*t.short()))
		waits := []*waiting{t.wait(t.b, held.key, t.long()), t.wait(t.a, held.key, t.long())}
		t.confirmQueued(held.key, len(waits))
		parked := t.parkedReaders(t.g.Round(4 * t.short()))
		t.h.RestartEmpty()
		emptied := time.Now()
		t.opensAtOnce("when the store had lost its data")
		t.becomesFreeAfterOutage(t.a, t.newKey())
		t.becomesFreeAfterOutage(t.b, t.newKey())
		bound := t.g.Round(held.ttl) + t.handOff() + recovery
		for _, w := range parked {
			g := w.granted(t, bound, "to a reader that waited when the store lost its data")
			t.outlived(emptied, w)
			t.release(g)
		}
		first := t.firstOf(waits, bound, "to those who waited when the store lost its data")
		g := waits[first].grant
		t.outlived(emptied, waits...)
		t.refused(t.a, g)
		t.refused(t.b, g)
		t.release(g)
		t.release(waits[1-first].granted(t, bound, "after release in a store that had lost its data"))
		t.wakesUp(held.key)
		t.servesEveryMethod("when the store had lost its data before")
	}
}

// parkedReaders returns a reader that waits behind a writer whose lease of ttl will expire. It returns none if the
// store has no shared leases.
func (t *trial) parkedReaders(ttl time.Duration) (waits []*waiting) {
	if !t.g.Shared {
		return nil
	}
	held := t.acquire(t.a, t.newKey(), ttl)
	waits = append(waits, t.waitToRead(t.b, held.key, t.long()))
	t.confirmQueued(held.key, 1)
	return waits
}

// outlived ends the check without a verdict if a waiter has had its turn and has then lost its lease. That waiter was
// granted the key before at, when the store had lost its leases. The holder's TTL had run out early, and the waiter's
// lease was lost with the data.
func (t *trial) outlived(at time.Time, waits ...*waiting) {
	for _, w := range waits {
		if w.ended() && w.err == nil && w.grant.after.Before(at) && t.within(time.Second, w.grant.Lost()) {
			t.provesNothing("a waiter had its turn before the store lost its leases")
		}
	}
}

// wakesUp checks that a release by one client wakes a waiter of the other, in both directions.
func (t *trial) wakesUp(key string) {
	for _, clients := range [][2]backend.Backend{{t.a, t.b}, {t.b, t.a}} {
		t.becomesFreeAfterOutage(clients[0], key)
		g := t.acquire(clients[0], key, t.long())
		w := t.wait(clients[1], key, t.long())
		t.arrived(key, 1)
		t.release(g)
		t.release(w.granted(t, t.handOff(), "after release, when the store had lost its data before"))
	}
}

func emptiedStoreLosesLeases(t *trial) {
	idle := t.acquire(t.a, t.newKey(), t.g.Round(2*t.short()))
	renewed := t.acquire(t.a, t.newKey(), t.long())
	taken := t.acquire(t.a, t.newKey(), t.long())
	t.h.RestartEmpty()
	fresh := t.acquireAfterOutage(t.b, taken.key, t.long())
	var err error
	lost := t.poll(recovery, func() bool {
		if err = renewed.Renew(t.ctx, t.long()); err == nil {
			t.fatalf("Renew succeeds in a store that has lost the lease")
		}
		return errors.Is(err, backend.ErrLost)
	})
	if !lost {
		t.fatalf("Renew, %v after the store had lost its data: %v, want ErrLost", recovery, err)
	}
	if !t.within(soon, renewed.Lost()) {
		t.fatalf("Lost is open after Renew was ErrLost")
	}
	t.staysFree(renewed.key, "after Renew in a store that has lost the lease")
	_ = taken.Release(t.ctx) // ErrLost, or nil if a reply was lost and the retry finds no lease
	t.refusedFor(t.a, fresh, t.short())
	t.heldBy(fresh)
	t.renew(fresh, t.long())
	if !t.within(t.g.Round(idle.ttl)+soon, idle.Lost()) {
		t.fatalf("Lost is not closed %v after the deadline of a lease that the store has lost", time.Since(idle.Deadline()))
	}
	t.isLost(idle.Renew(t.ctx, t.long()), "Renew after the deadline")
	t.free(t.b, renewed.key, "after Renew in a store that has lost the lease")
	t.release(fresh)
	t.free(t.a, taken.key, "after release")
}

// acquireAfterOutage acquires a free key. It retries while the client recovers.
func (t *trial) acquireAfterOutage(b backend.Backend, key string, ttl time.Duration) (g *grant) {
	var err error
	if !t.poll(recovery, func() bool {
		ctx, cancel := context.WithTimeout(t.ctx, recovery)
		defer cancel()
		g, err = t.requestKey(ctx, b, key, ttl, false)
		return err == nil
	}) {
		t.fatalf("Acquire of a free key, %v after an outage: %v", recovery, err)
	}
	return g
}

func tokensSurviveEmptying(t *trial) {
	s, held := &tokens{t: t}, t.newKey()
	inHeld := &tokens{t: t}
	for range 3 {
		g := t.acquire(t.a, t.key, t.long())
		s.next(g, "grant")
		t.release(g)
		inHeld.next(t.acquireAfterOutage(t.a, held, t.long()), "grant")
		t.h.RestartEmpty()
		s.next(t.acquireAfterOutage(t.b, t.key, t.long()), "grant after the store lost its data")
		t.h.RestartEmpty()
		t.becomesFreeAfterOutage(t.a, t.newKey())
		t.becomesFreeAfterOutage(t.b, t.newKey())
	}
	s.next(t.acquireAfterOutage(t.b, t.key, t.long()), "grant after the store lost its data")
	inHeld.next(t.acquireAfterOutage(t.b, held, t.long()), "grant after the store lost a lease and all its data")
}

// tokensSurviveRestart restarts the store while one key is free, one lease expires, one key is waited for, and requests
// are under way.
func tokensSurviveRestart(t *trial) {
	busy := []*tokens{{t: t}, {t: t}}
	keys := []string{t.newKey(), t.newKey()}
	expiring, waited, free := &tokens{t: t}, &tokens{t: t}, &tokens{t: t}
	expiringKey, waitedKey := t.newKey(), t.newKey()
	broken, brokenKey := &tokens{t: t}, t.newKey()
	shared, sharedKey := &tokens{t: t}, t.newKey()
	if t.g.Shared {
		g := t.read(t.b, sharedKey, t.long())
		shared.next(g, "grant to a reader")
		t.release(g)
	}
	if breaker, ok := t.b.(backend.Breaker); ok {
		g := t.acquire(t.a, brokenKey, t.long())
		broken.next(g, "grant")
		t.mustBreak(breaker, g)
	}
	dying := t.acquire(t.a, expiringKey, t.short())
	expiring.next(dying, "grant")
	for range 2 {
		last := t.acquireAfterOutage(t.a, t.key, t.long())
		free.next(last, "grant of a free key")
		t.release(last)
		held := t.acquireAfterOutage(t.a, waitedKey, t.long())
		waited.next(held, "grant")
		w := t.wait(t.b, waitedKey, t.long())
		t.confirmQueued(waitedKey, 1)
		end := t.beBusy(keys, busy)
		time.Sleep(rand.N(t.h.ArrivalDelay))
		t.h.Restart()
		if !t.poll(recovery, func() bool {
			err := held.Release(t.ctx)
			return err == nil ||
				errors.Is(err, backend.ErrLost)
		}) {
			t.fatalf("Release does not succeed within %v after a restart of the store", recovery)
		}
		next := w.granted(t, t.handOff()+recovery, "after a restart of the store and release")
		waited.next(next, "grant to a waiter that outlived a restart")
		end()
		_ = next.Release(t.ctx)
		t.becomesFreeAfterOutage(t.a, next.key)
		t.becomesFreeAfterOutage(t.b, next.key)
	}
	free.next(t.acquireAfterOutage(t.b, t.key, t.long()), "grant to another client after restarts")
	broken.next(t.acquireAfterOutage(t.b, brokenKey, t.long()), "grant after restarts, and a Break of the lease before")
	shared.next(t.acquireAfterOutage(t.a, sharedKey, t.long()), "grant after restarts, and a reader before")
	t.outlast(t.lastRefusal(dying.after, dying.ttl))
	g := t.acquireAfterOutage(t.b, expiringKey, t.long())
	expiring.next(g, "grant after restarts, and the expiry of the lease before")
}

// beBusy acquires and releases each of keys again and again until end is called. It ignores errors. order checks the
// tokens of each key.
func (t *trial) beBusy(keys []string, order []*tokens) (end func()) {
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.ctx)
	for i, key := range keys {
		all.Add(1)
		t.spawn(func() {
			defer all.Done()
			for n := 0; ctx.Err() == nil; n++ {
				once, cancel := context.WithTimeout(ctx, time.Second)
				g, err := t.requestKey(once, t.client(n), key, t.long(), n%3 == 0)
				cancel()
				if err != nil {
					time.Sleep(tick)
					continue
				}
				order[i].next(g, "grant while the store was restarted")
				_ = g.Release(t.ctx)
			}
		})
	}
	return func() { cancel(); all.Wait() }
}
