package conformance

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

var faultChecks = []Check{
	{
		Name:  "FrozenStoreLosesLease",
		Rule:  "rule 6: Lost closes at the deadline at the latest, whatever a hung renewal does",
		Needs: []Need{needsFreeze},
		alone: true,
		run:   frozenStoreLosesLease,
	},
	{
		Name: "FrozenStoreHonoursContext",
		Rule: "rule 4: Acquire returns promptly when its context ends, though the store does not answer, and does not say " +
			"that the key " +
			"is busy; nothing stays behind",
		Needs: []Need{needsFreeze},
		alone: true,
		run:   frozenStoreHonoursContext,
	},
	{
		Name:  "FrozenReleaseIsBounded",
		Rule:  "Lease.Release is bounded by a timeout of its own, and its key is free by the TTL",
		Needs: []Need{needsFreeze},
		alone: true,
		run:   frozenReleaseIsBounded,
	},
	{
		Name:  "DeadlineAnchoredBeforeSend",
		Rule:  "rule 2: a deadline counts from before the request was sent, not from the answer",
		Needs: []Need{needsFreeze},
		alone: true,
		run:   deadlineAnchoredBeforeSend,
	},
	{
		Name:  "CutClientRecovers",
		Rule:  "Backend.Acquire that waits outlives a passing outage; a client whose connections broke serves every method",
		Needs: []Need{needsCut},
		alone: true,
		run:   cutClientRecovers,
	},
	{
		Name:  "RestartKeepsWaiters",
		Rule:  "Backend.Acquire that waits outlives a passing outage of the store; its clients serve every method afterwards",
		Needs: []Need{needsRestart},
		alone: true,
		run:   restartKeepsWaiters,
	},
	{
		Name:  "RestartKeepsLeases",
		Rule:  "Guarantees.EarlyLoss: where it is empty, the store drops no live lease, not even across a restart",
		Needs: []Need{needsRestart, needsNoEarlyLoss},
		alone: true,
		run:   restartKeepsLeases,
	},
	{
		Name: "FrozenStoreKeepsOrder",
		Rule: "rules 1 and 6: when a store answers again after a lease's deadline, Lost closes before the next " +
			"owner gets in",
		Needs: []Need{needsFreeze},
		alone: true,
		run:   frozenStoreKeepsOrder,
	},
}

// recovery bounds the time from the end of an outage until a client works again.
const recovery = 15 * time.Second

// freeze makes the store stop answering until thaw is called, or the trial ends.
func (t *trial) freeze() (thaw func()) {
	thaw = sync.OnceFunc(t.h.Thaw)
	t.endsFault(thaw)
	t.h.Freeze()
	return thaw
}

func frozenStoreLosesLease(t *trial) {
	idle := t.acquire(t.a, t.newKey(), 2*t.short())
	busy := t.acquire(t.a, t.newKey(), 2*t.short())
	renewed := make(chan struct{})
	defer t.freeze()()
	t.spawn(func() {
		defer close(renewed)
		if err := busy.Renew(t.ctx, 2*t.short()); err == nil && busy.gone() {
			t.errorf("Renew succeeded on a lease that is lost")
		}
	})
	for _, g := range []*grant{idle, busy} {
		t.losesInTime(g)
	}
	if !t.within(soon, renewed) {
		t.fatalf("Renew has not returned %v after the deadline", soon)
	}
}

func frozenStoreHonoursContext(t *trial) {
	held := t.acquire(t.a, t.key, t.long())
	w := t.wait(t.b, t.key, t.long())
	t.confirmQueued(t.key, 1)
	free := t.newKey()
	all, keys := t.methods(t.a, held)
	thaw := t.freeze()
	for _, wait := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.ctx, 200*time.Millisecond)
		begun := time.Now()
		g, err := t.requestKey(ctx, t.b, free, t.long(), wait)
		cancel()
		if took := time.Since(begun); t.overdue(took, 0) {
			t.fatalf("Acquire with a context of 200ms took %v while the store is frozen", took)
		}
		if g != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.fatalf("Acquire while the store is frozen: lease %v, error %v, want context.DeadlineExceeded", g != nil, err)
		}
		t.notBusy(err, "while the store is frozen")
	}
	w.cancelAndFail(t)
	t.cancelsUnderWay(all, held)
	thaw()
	for _, key := range append(keys, free) {
		t.becomesFreeAfterOutage(t.a, key)
	}
	if !t.poll(recovery, func() bool { return held.Release(t.ctx) == nil }) {
		t.fatalf("Release of a live lease does not succeed after the store was frozen")
	}
	t.becomesFreeAfterOutage(t.a, t.key)
}

// becomesFreeAfterOutage waits until b can acquire and release key. It ignores errors while the client recovers.
func (t *trial) becomesFreeAfterOutage(b backend.Backend, key string) {
	var err error
	ok := t.poll(recovery, func() bool {
		ctx, cancel := context.WithTimeout(t.ctx, recovery)
		defer cancel()
		var g *grant
		if g, err = t.requestKey(ctx, b, key, t.long(), false); err == nil {
			err = g.Release(t.ctx)
		}
		return err == nil
	})
	if !ok {
		t.fatalf("the key is not free %v after the outage: %v", recovery, err)
	}
}

func frozenReleaseIsBounded(t *trial) {
	g := t.acquire(t.a, t.key, 4*t.short())
	thaw := t.freeze()
	const bound = 15 * time.Second
	release := t.call(func() error { return g.Release(t.ctx) })
	if err := release.ends(t, bound, "Release while the store is frozen"); kit.IsContextError(err) && t.ctx.Err() == nil {
		t.fatalf("Release while the store is frozen: %v, want ErrUnavailable: no context of the caller has ended", err)
	}
	thaw()
	time.Sleep(time.Until(t.lastRefusal(g.after, g.ttl)))
	t.becomesFreeAfterOutage(t.b, t.key)
}

func deadlineAnchoredBeforeSend(t *trial) {
	first := t.acquire(t.a, t.newKey(), t.long()) // now the client is connected
	t.anchored("Acquire", func() *grant { return t.acquire(t.a, t.newKey(), t.long()) })
	for _, way := range t.renewals() {
		t.anchored(way.what, func() *grant {
			t.renewBy(first, t.long(), func() error { return way.renew(t.ctx, first, t.long()) })
			return first
		})
	}
}

// anchored makes a request while the store is frozen for a moment. The deadline must count from before the request was
// sent. A busy machine may send the request late, but not in every attempt.
func (t *trial) anchored(what string, request func() *grant) {
	const (
		frozen   = 200 * time.Millisecond
		attempts = 5
	)
	var late time.Duration
	for range attempts {
		t.release(t.acquire(t.a, t.newKey(), t.long())) // now a store with one connection per lease has a free connection
		var g *grant
		thaw := t.freeze()
		done := make(chan struct{})
		before := time.Now()
		t.spawn(func() { defer close(done); g = request() })
		time.Sleep(frozen)
		thaw()
		if !t.within(recovery, done) {
			t.fatalf("%s: no answer %v after a short freeze", what, recovery)
		}
		if g == nil {
			runtime.Goexit() // the failure is recorded
		}
		late = g.Deadline().Sub(backend.Deadline(before, t.g.Round(t.long())))
		if late < frozen/2 {
			return
		}
	}
	t.fatalf("%s: the deadline counts from %v after the request was sent, time and again", what, late)
}

func cutClientRecovers(t *trial) {
	c, cut := t.cuttable()
	held := t.acquire(t.a, t.key, t.long())
	w := t.wait(c, t.key, t.long())
	t.confirmQueued(t.key, 1)
	cut()
	time.Sleep(t.h.ArrivalDelay)
	w.stillWaits(t, held, t.rule)
	t.heldBy(held)
	t.release(held)
	next := w.granted(t, recovery+t.g.MaxLate, "after release, with connections that broke before")
	t.refused(t.a, next)
	t.becomesFreeAfterOutage(c, t.newKey())
	t.release(next)
	t.everyMethodOf(c, "by a client whose connections broke")
	cut()
	t.becomesFreeAfterOutage(c, t.newKey())
	t.everyMethodOf(c, "by a client whose connections broke again")
	t.endsDespiteCut(c, cut)
}

// endsDespiteCut cuts the client of a holder that makes no further request. Its lease must end in time, although the
// client connects again.
func (t *trial) endsDespiteCut(c backend.Backend, cut func()) {
	dead := t.acquire(c, t.newKey(), min(t.g.Round(2*t.awaited()), t.long()))
	time.Sleep(dead.ttl / 2)
	cut()
	t.becomesFreeAfterOutage(c, t.newKey())
	t.outlast(t.lastRefusal(dead.after, dead.ttl))
	t.free(t.b, dead.key, "after the TTL of a lease whose client has connected again")
}

func restartKeepsWaiters(t *trial) {
	t.servesEveryMethod("before a restart of the store")
	g := t.acquire(t.a, t.key, t.g.Round(4*t.short()))
	w := t.wait(t.b, t.key, t.long())
	t.confirmQueued(t.key, 1)
	t.h.Restart()
	restarted := time.Now()
	next := w.granted(t, t.g.Round(g.ttl)+t.g.MaxLate+recovery, "after the holder's expiry and a restart of the store")
	if early := g.Deadline().Sub(next.after); early > 0 && t.g.EarlyLoss == "" {
		t.doubleGrant("a waiter was granted the key %v before the holder's deadline, after a restart", early)
	}
	t.becomesFreeAfterOutage(t.a, t.newKey())
	if t.g.EarlyLoss != "" {
		t.outlived(restarted, w)
	}
	t.release(next)
	t.becomesFreeAfterOutage(t.b, t.newKey())
	t.servesEveryMethod("after a restart of the store")
}

func restartKeepsLeases(t *trial) {
	brief := t.passing()
	renewed := t.acquire(t.a, t.newKey(), brief)
	t.renew(renewed, t.long())
	g := t.acquire(t.a, t.key, t.long())
	end := g.Deadline() // the deadline if the holder sends nothing more
	t.h.Restart()
	restarted := time.Now()
	t.keptOverRestart(g, end, "lease")
	t.outlast(t.lastRefusal(restarted, brief)) // prove that the store has kept the renewal, not only the grant
	t.keptOverRestart(renewed, renewed.Deadline(), "renewed lease")
}

// keptOverRestart fails unless g is still held after a restart, and can be renewed and released. g must live at least
// until end.
func (t *trial) keptOverRestart(g *grant, end time.Time, what string) {
	t.heldOverRestart(g, end, what)
	t.release(g)
}

// heldOverRestart is keptOverRestart without the release.
func (t *trial) heldOverRestart(g *grant, end time.Time, what string) {
	var err error
	ok := t.poll(recovery, func() bool {
		var other *grant
		other, err = t.requestKey(t.ctx, t.b, g.key, t.long(), false)
		t.restartedBefore(end)
		if other != nil {
			t.doubleGrant("a second owner was granted the key of a %s after a restart, %v before the holder's deadline", what,
				time.Until(g.Deadline()))
		}
		return errors.Is(err, backend.ErrHeld)
	})
	if !ok {
		t.fatalf("Acquire of the key of a %s, %v after a restart: %v, want ErrHeld", what, recovery, err)
	}
	if !t.poll(recovery, func() bool { err = g.Renew(t.ctx, t.long()); return err == nil }) {
		t.fatalf("Renew of a live %s, %v after a restart: %v", what, recovery, err)
	}
	t.heldBy(g)
}

// restartedBefore ends the check without a verdict if the restart took too long: a holder whose lease ends at end must
// have time left to reconnect to the store.
func (t *trial) restartedBefore(end time.Time) {
	const comeBack = time.Second
	if time.Until(end) >= comeBack {
		return
	}
	if kept := t.kept(t.long()); kept < t.long() && t.stretch >= mostStretched(t.g, t.h) {
		t.skipf("a lease ends %v after its client was last heard (Guarantees.MaxSilence), and here a restart takes longer",
			kept)
	}
	t.provesNothing("the restart took as long as a lease lasts")
}

func frozenStoreKeepsOrder(t *trial) {
	g := t.acquire(t.a, t.key, 2*t.short())
	w := t.wait(t.b, t.key, t.long())
	t.confirmQueued(t.key, 1)
	thaw := t.freeze()
	time.Sleep(time.Until(t.lastRefusal(g.after, g.ttl)))
	thaw()
	next := w.granted(t, t.handOff()+recovery, "after the holder's expiry in a frozen store")
	if !g.gone() && !g.live(next.after) {
		if !t.within(10*tick, g.Lost()) { // the goroutine that closes Lost may not have run yet
			t.fatalf("the next owner is in and Lost is not closed, %v after the deadline", time.Since(g.Deadline()))
		}
	}
	if early := g.Deadline().Sub(next.after); early > 0 {
		t.doubleGrant("the next owner was granted the key %v before the holder's deadline", early)
	}
	t.release(next)
}
