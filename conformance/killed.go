package conformance

import (
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
)

func killedHolderFreesKey(t *trial) {
	p := t.process(0)
	t.operatesOn(p)
	waited, tried := t.remoteHold(p, t.key, t.short()), t.remoteHold(p, t.newKey(), t.short())
	w := t.wait(t.b, waited.key, t.long())
	p.Kill()
	t.release(t.takesOver(tried, tried.after))
	t.release(w.granted(t, t.handOff(), "after the TTL of a killed holder"))
	t.free(t.a, waited.key, "after a killed holder")
	t.free(t.b, tried.key, "after a killed holder")
}

// operatesOn lists and breaks a lease of process p, which is notified where Guarantees.ReportsLoss says so.
func (t *trial) operatesOn(p Process) {
	r := t.remoteHold(p, t.newKey(), t.long())
	if lister, ok := t.b.(backend.Lister); ok && !t.list(lister, r.key)[r.key] {
		t.breaksText(inspectRule, "List does not return a key that another process holds")
	}
	breaker, ok := t.b.(backend.Breaker)
	if !ok {
		r.release()
		return
	}
	t.mustBreak(breaker, &grant{key: r.key, owner: r.owner})
	t.free(t.a, r.key, "after Break of a lease of another process")
	lost := func() bool {
		lost, err := p.Lost(t.ctx, r.owner)
		return err == nil && lost
	}
	if t.g.ReportsLoss && !t.poll(soon, lost) {
		t.notInTime(t.ruleText(6), "Lost is open in another process %v after Break of its lease", soon)
	}
}

func killedWaiterDelaysNextBriefly(t *trial) {
	kills := []func(release, kill func()){
		func(release, kill func()) { kill(); release() },
		func(release, kill func()) { release(); kill() },
		func(release, kill func()) { go kill(); release() },
	}
	t.together(len(kills), func(i int) {
		p, key := t.process(0), t.newKey()
		g := t.acquire(t.a, key, t.long())
		t.remoteWait(p, key, t.short(), 1)
		w := t.wait(t.b, key, t.long())
		t.arrived(key, 2)
		kills[i](func() { t.release(g) }, p.Kill)
		next := w.granted(t, t.g.Round(t.short())+t.handOff(), "after release, with a waiter before it that was killed")
		t.heldBy(next)
		t.release(next)
		t.becomesFree(t.a, key, t.handOff(), "after the last waiter's release")
	})
}

// killedInside kills processes at random moments of a request that begin starts for a key. done is called just before
// the kill. It reports whether the request was a Release that has succeeded.
func (t *trial) killedInside(begin func(p Process, key string) (done func() bool)) {
	const (
		workers = 3
		rounds  = 4
		atMost  = 3 * time.Second
	)
	end := time.Now().Add(atMost)
	t.together(workers, func(int) {
		for round := 0; round < rounds && (round == 0 || time.Now().Before(end)) && !t.ended(); round++ {
			p, key := t.process(0), t.newKey()
			typical := t.remoteTypical(p)
			done := begin(p, key)
			for now, until := time.Now(), time.Now().Add(rand.N(3*typical/2)); now.Before(until); now = time.Now() {
				moveClock(now)
				if typical > time.Millisecond {
					time.Sleep(100 * time.Microsecond) // a shorter request ends before a timer fires
				}
			}
			released := done()
			p.Kill()
			if released {
				t.free(t.a, key, "after a Release that succeeded, in a process that was then killed")
			}
			t.becomesFree(t.b, key, t.g.Round(t.short())+t.handOff(), "after a process was killed inside a request")
		}
	})
}

// remoteTypical returns the duration of a request of process p, for races that aim at a moment within a request.
func (t *trial) remoteTypical(p Process) time.Duration {
	return min(max(t.remoteUsual(p), 50*time.Microsecond), 20*time.Millisecond)
}

// remoteUsual returns the shortest duration of a few requests of process p. The first request may have to connect.
func (t *trial) remoteUsual(p Process) time.Duration {
	least := time.Hour
	for range 3 {
		r := t.remoteHold(p, t.newKey(), t.short())
		least = min(least, r.after.Sub(r.before))
		r.release()
	}
	return least
}

func killedInsideAcquire(t *trial) {
	t.killedInsideEach(func(p Process, key string, shared bool) func() bool {
		r := backend.Request{Key: key, Owner: backend.NewOwner(), TTL: t.short(), Wait: rand.N(2) == 0, Shared: shared}
		if rand.N(2) == 0 {
			t.remoteRequest(p, r)
			return func() bool { return false }
		}
		g := t.acquire(t.a, key, t.long())
		r.Wait = true
		t.remoteRequest(p, r)
		return func() bool {
			t.release(g) // now the grant may be on its way to the waiter in p
			return false
		}
	})
}

// killedInsideEach is killedInside for requests in each mode.
func (t *trial) killedInsideEach(begin func(p Process, key string, shared bool) (done func() bool)) {
	for _, shared := range t.modes() {
		t.killedInside(func(p Process, key string) func() bool { return begin(p, key, shared) })
	}
}

// remoteLease acquires a free key in process p, shared or not.
func (t *trial) remoteLease(p Process, key string, shared bool) *remote {
	if shared {
		return t.remoteRead(p, key, t.short())
	}
	return t.remoteHold(p, key, t.short())
}

func killedInsideRelease(t *trial) {
	t.killedInsideEach(func(p Process, key string, shared bool) func() bool {
		r := t.remoteLease(p, key, shared)
		released := make(chan error, 1)
		t.spawn(func() { released <- p.Release(t.ctx, r.owner) })
		return func() bool {
			select {
			case err := <-released:
				return err == nil
			default:
				return false
			}
		}
	})
}

func killedInsideRenew(t *trial) {
	t.killedInsideEach(func(p Process, key string, shared bool) func() bool {
		r := t.remoteLease(p, key, shared)
		t.spawn(func() { _ = p.Renew(t.ctx, r.owner, t.short()) })
		return func() bool { return false }
	})
}
