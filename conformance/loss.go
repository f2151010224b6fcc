package conformance

import (
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

var lossChecks = []Check{
	{
		Name: "LostAtDeadline",
		Rule: "rule 6: Lost closes at the deadline, not before and not later",
		run:  lostAtDeadline,
	},
	{
		Name: "LostFollowsRenewal",
		Rule: "rule 6: Lost of a renewed lease closes at its new deadline",
		run:  lostFollowsRenewal,
	},
	{
		Name: "LostNeverAfterRelease",
		Rule: "rule 6: Lost never closes after a clean release, nor calls OnLost back, however the lease was granted, " +
			"renewed or resumed, also if a renewal was under way",
		run: lostNeverAfterRelease,
	},
	{
		Name: "OnLostCalls",
		Rule: "LossNotifier.OnLost calls back once when Lost closes, at once if it has, never after a release",
		run:  onLostCalls,
	},
}

// lostSoon is how long after the deadline Lost may close.
const lostSoon = 500 * time.Millisecond

// losesOnTime fails unless Lost of g closes at its deadline.
func (t *trial) losesOnTime(g *grant) {
	deadline := g.Deadline()
	for t.livesUntil(g, deadline) {
		next := g.Deadline()
		if t.g.MaxSilence == 0 || !next.After(deadline) {
			if !t.within(lostSoon, g.Lost()) {
				t.breaks(6, "Lost is not closed %v after the deadline", time.Since(deadline))
			}
			return
		}
		deadline = next // the deadline has moved on without a renewal
	}
}

// livesUntil reports whether Lost of g is still open at the deadline. It fails if Lost closes before.
func (t *trial) livesUntil(g *grant, deadline time.Time) bool {
	time.Sleep(time.Until(deadline) - 15*time.Millisecond)
	if gone, now := g.gone(), time.Now(); gone && now.Before(deadline) {
		t.fatalf("Lost is closed %v before the deadline", deadline.Sub(now))
	}
	// Lateness counts from when this goroutine runs again, because the lease's own timer needs a processor too.
	wake := time.NewTimer(time.Until(deadline))
	defer wake.Stop()
	select {
	case <-g.Lost():
		if early := time.Until(deadline); early > 0 {
			t.fatalf("Lost closed %v before the deadline", early)
		}
		return false
	case <-wake.C:
		return true
	}
}

func lostAtDeadline(t *trial) {
	t.losesBehind()
	t.losesInCrowd()
	t.inChunks(20, 1, func(i int) {
		g := t.acquire(t.a, t.newKey(), t.short()+time.Duration(i)*t.short()/20)
		t.losesOnTime(g)
		if least := backend.Deadline(g.before, g.ttl); g.ttl > t.kept(g.ttl) && time.Now().Before(least) {
			t.fatalf("TTL %v: Lost closed %v early, the deadline did not move on", g.ttl, time.Until(least))
		}
	})
}

// losesBehind releases the lease of a client that would end first. Lost of the other leases must still close in time,
// although the client makes no further request.
func (t *trial) losesBehind() {
	c := t.open()
	rest := []*grant{t.acquire(c, t.newKey(), 2*t.short()), t.acquire(c, t.newKey(), 2*t.short())}
	t.release(t.acquire(c, t.newKey(), t.short()))
	t.together(len(rest), func(i int) { t.losesOnTime(rest[i]) })
}

func lostFollowsRenewal(t *trial) {
	t.eachRenewal(4, func(i int, way renewal) {
		g := t.acquire(t.a, t.newKey(), t.short())
		old, lost := g.Deadline(), g.Lost() // this channel must stay the right one
		time.Sleep(t.short() / 4)
		ttls := []time.Duration{2 * t.short()}
		if i%2 == 1 {
			ttls = []time.Duration{t.long(), 2 * t.short()}
		}
		for _, ttl := range ttls {
			t.renewBy(g, ttl, func() error { return way.renew(t.ctx, g, ttl) })
		}
		time.Sleep(time.Until(old) + 20*time.Millisecond)
		if (g.gone() || !isOpen(lost)) && g.live(time.Now()) {
			t.fatalf("after %s, Lost closed at the old deadline", way.what)
		}
		t.losesOnTime(g)
		if !t.within(lostSoon, lost) {
			t.fatalf("after %s, the channel that Lost had returned before is open, and the lease is lost", way.what)
		}
	})
	t.losesBatch()
}

// isOpen reports whether ch is not closed.
func isOpen(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return false
	default:
		return true
	}
}

// losesBatch shortens several leases in one batch, which gives them one deadline. Lost of each must close then.
func (t *trial) losesBatch() {
	batcher, ok := t.a.(backend.BatchRenewer)
	if !ok {
		return
	}
	grants := make([]*grant, min(4, t.h.Many))
	t.inTurns(len(grants), func(i int) { grants[i] = t.acquire(t.a, t.newKey(), t.long()) })
	before := time.Now()
	errs := batcher.RenewBatch(t.ctx, toBatch(2*t.short(), grants...))
	t.answeredAll(errs, before)
	for i, err := range errs {
		if t.lostInTime(err, grants[i].Deadline(), before, 2*t.short()); err != nil {
			t.breaksText(renewRule, "lease %d of a batch, which is live: %v", i, err)
		}
	}
	t.together(len(grants), func(i int) { t.losesOnTime(grants[i]) })
}

func onLostCalls(t *trial) {
	g := t.acquire(t.a, t.key, t.short())
	n, ok := g.Lease.(backend.LossNotifier)
	if !ok {
		t.skipf("leases of this store are no LossNotifiers")
	}
	var calls atomic.Int32
	called := make(chan struct{})
	n.OnLost(func() {
		if calls.Add(1) == 1 {
			close(called)
		}
		if !g.gone() {
			t.errorf("OnLost called back before Lost was closed")
		}
	})
	if !t.within(t.g.Round(g.ttl)+soon, called) {
		t.fatalf("OnLost has not called back %v after the deadline", time.Since(g.Deadline()))
	}
	var again atomic.Int32
	n.OnLost(func() { again.Add(1) })
	if !t.poll(soon, func() bool { return again.Load() > 0 }) {
		t.fatalf("OnLost does not call back when the lease is lost already")
	}
	time.Sleep(2 * tick) // a second call may follow the first
	if calls.Load() != 1 || again.Load() != 1 {
		t.fatalf("OnLost called back %d times, and %d times when the lease was lost already, want once each", calls.Load(),
			again.Load())
	}
}
