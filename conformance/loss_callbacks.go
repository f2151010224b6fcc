package conformance

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

var lossCallbackChecks = []Check{
	{
		Name: "OnLostCallsWhateverEndsIt",
		Rule: "LossNotifier.OnLost calls back, each function once, as Lost closes: at the deadline that the last renewal " +
			"has set, when a " +
			"client is closed, and when the store reports that the lease has ended, as the answer to a renewal or a release " +
			"or by itself",
		run: onLostCallsWhateverEndsIt,
	},
}

// lossCallbacks counts the calls of functions that were registered with OnLost.
type lossCallbacks struct {
	t     *trial
	g     *grant
	calls [3]atomic.Int32
	early atomic.Int32 // calls while Lost was open
}

// countCallbacks registers several functions with OnLost of g, and counts their calls.
func (t *trial) countCallbacks(g *grant) *lossCallbacks {
	n, ok := g.Lease.(backend.LossNotifier)
	if !ok {
		t.skipf("leases of this store are no LossNotifiers")
	}
	to := &lossCallbacks{t: t, g: g}
	for i := range to.calls {
		n.OnLost(func() {
			if !to.g.gone() {
				to.early.Add(1)
			}
			_, _ = to.g.Deadline(), to.g.Token() // nothing waits for the callback
			n.OnLost(func() {})
			to.calls[i].Add(1)
		})
	}
	return to
}

// all fails unless every function was called once, soon after Lost has closed.
func (to *lossCallbacks) all(when string) {
	t := to.t
	if !to.g.gone() {
		t.breaks(6, "%s: Lost is not closed", when)
	}
	var late atomic.Int32
	to.g.Lease.(backend.LossNotifier).OnLost(func() { late.Add(1) })
	const prompt = soon / 5
	for i := range to.calls {
		if !t.poll(prompt, func() bool { return to.calls[i].Load() > 0 }) {
			t.fatalf("%s: OnLost has not called function %d of %d, %v after Lost closed", when, i+1, len(to.calls), prompt)
		}
		if n := to.calls[i].Load(); n != 1 {
			t.fatalf("%s: OnLost has called a function %d times", when, n)
		}
	}
	if n := to.early.Load(); n > 0 {
		t.fatalf("%s: OnLost has called back before Lost was closed", when)
	}
	if !t.poll(prompt, func() bool { return late.Load() > 0 }) {
		t.fatalf("%s: OnLost has not called a function that was registered after Lost had closed", when)
	}
}

// none fails if a function was called while Lost is open.
func (to *lossCallbacks) none(when string) {
	for i := range to.calls {
		if n := to.calls[i].Load(); n > 0 && !to.g.gone() {
			to.t.fatalf("%s: OnLost has called back, and Lost is open", when)
		}
	}
}

func onLostCallsWhateverEndsIt(t *trial) {
	ways := []func(){t.callsOnClose}
	for _, way := range t.renewals() {
		ways = append(ways, func() { t.callsAtNewDeadline(t.acquire, way) })
		if t.g.Shared {
			ways = append(ways, func() { t.callsAtNewDeadline(t.read, way) })
		}
	}
	if _, ok := t.b.(backend.Breaker); ok || t.h.Evict != nil {
		gets := []getter{t.acquire}
		if t.g.Shared {
			gets = append(gets, t.read)
		}
		for _, get := range gets {
			for _, way := range t.renewals() {
				ways = append(ways, func() { t.callsOnLostRenewal(way, get) })
			}
			ways = append(ways, func() { t.callsOnLostRelease(get) })
		}
	}
	if t.h.Evict != nil && t.g.ReportsLoss {
		ways = append(ways, t.callsOnStoreLoss)
	}
	t.inChunks(len(ways), 1, func(i int) { ways[i]() })
}

// A getter acquires a key that is free, in one of the modes.
type getter = func(b backend.Backend, key string, ttl time.Duration) *grant

func (t *trial) callsAtNewDeadline(get getter, way renewal) {
	g := get(t.a, t.newKey(), t.short())
	to, first := t.countCallbacks(g), g.Deadline()
	t.renewBy(g, 2*t.short(), func() error { return way.renew(t.ctx, g, 2*t.short()) })
	t.outlast(first.Add(2 * tick))
	to.none("at the deadline before the last renewal")
	t.expire(g)
	to.all("at the deadline")
}

func (t *trial) callsOnClose() {
	c := t.open()
	g := t.acquire(c, t.newKey(), t.long())
	to := t.countCallbacks(g)
	t.closes(c)
	to.all("after Close")
}

// evicts returns a lease that the store has just dropped, or that was broken.
func (t *trial) evicts(get getter) (*grant, *lossCallbacks) {
	g := get(t.a, t.newKey(), t.long())
	to := t.countCallbacks(g)
	t.drops(g)
	return g, to
}

// callsOnStoreLoss checks the callbacks of a lease that the store has dropped and that makes no request.
func (t *trial) callsOnStoreLoss() {
	g, to := t.evicts(t.acquire)
	if !t.within(soon, g.Lost()) {
		t.breaks(6, "Lost is not closed %v after the store has dropped the lease", soon)
	}
	to.all("after the store has dropped the lease")
}

// callsOnLostRenewal checks the callbacks when a renewal reports that the store has dropped the lease. The client may
// have been notified before.
func (t *trial) callsOnLostRenewal(way renewal, get getter) {
	g, to := t.evicts(get)
	begun := time.Now()
	err := way.renew(t.ctx, g, t.long())
	t.lateOnTimeout(err, begun)
	if !errors.Is(err, backend.ErrLost) {
		t.breaks(5, "%s of a lease that the store has dropped: %v, want ErrLost", way.what, err)
	}
	to.afterLoss(way.what)
}

// callsOnLostRelease checks the callbacks when a release reports that the store has dropped the lease.
func (t *trial) callsOnLostRelease(get getter) {
	g, to := t.evicts(get)
	begun := time.Now()
	err := g.Release(t.ctx)
	t.lateOnTimeout(err, begun)
	if took := time.Since(begun); err == nil && took > slow { // a retried request may find the work done
		t.tooLate("Release of a lease that the store has dropped: no error after %v", took)
	}
	t.isLost(err, "Release of a lease that the store has dropped")
	to.afterLoss("Release")
}

// afterLoss fails unless Lost closes and every function is called, after a request returned ErrLost.
func (to *lossCallbacks) afterLoss(request string) {
	if !to.t.within(soon, to.g.Lost()) {
		to.t.breaks(6, "Lost is not closed %v after %s failed with ErrLost", soon, request)
	}
	to.all("after " + request + " failed with ErrLost")
}
