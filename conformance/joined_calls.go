package conformance

import (
	"context"
	"errors"
	"time"
)

// joinedCallChecks are of calls that begin while another call for the same lease or key gets no reply. A client may
// join such calls, or make one wait for the other.
var joinedCallChecks = []Check{
	{
		Name: "ReleaseBesideHungRenewal",
		Rule: "Lease.Release is bounded by a timeout of its own, also while a renewal of the lease gets no reply; soon " +
			"after the outage the key is free",
		Needs: []Need{needsLinked},
		run:   releaseBesideHungRenewal,
	},
	{
		Name: "CancelledCallSparesSecond",
		Rule: "rule 4: the end of a call's context ends that call alone: a second call of the same method for the same " +
			"lease or key does not fail with the error of a context that has not ended",
		Needs: []Need{needsLinked},
		run:   cancelledCallSparesSecond,
	},
}

// underWay is how long a call gets to send its request.
const underWay = 50 * time.Millisecond

func releaseBesideHungRenewal(t *trial) {
	const bound = 15 * time.Second // as in FrozenReleaseIsBounded
	t.eachRenewal(1, func(_ int, way renewal) {
		c, link := t.linked()
		t.usable(c)
		g := t.acquire(c, t.newKey(), t.long())
		link.Hold(FromStore)
		renewal := t.call(func() error { return way.renew(t.ctx, g, t.long()) })
		time.Sleep(underWay)
		release := t.call(func() error { return g.Release(t.ctx) })
		err := release.ends(t, bound, "Release while "+way.what+" of the same lease gets no reply")
		link.Heal()
		_ = renewal.ends(t, recovery, way.what+" of a lease that was released meanwhile")
		if !t.excused(g, err) {
			t.becomesFree(t.b, g.key, recovery, "after a Release while "+way.what+" got no reply")
		}
	})
}

// cancelledCallSparesSecond makes two calls of each method, and cancels the first. The second then gets its reply.
func cancelledCallSparesSecond(t *trial) {
	c, link := t.linked()
	t.usable(c)
	held := t.acquire(c, t.newKey(), t.long())
	all, free := t.methods(c, held)
	link.Hold(FromStore)
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	begin := func(ctx context.Context) (calls []*call) {
		for _, m := range all {
			calls = append(calls, t.call(func() error { return m.do(ctx) }))
		}
		time.Sleep(underWay)
		return calls
	}
	first, second := begin(ctx), begin(t.ctx)
	cancel()
	for i, call := range first {
		_ = call.ends(t, soon, all[i].name+" whose context was cancelled")
	}
	time.Sleep(underWay)
	link.Heal()
	for i, call := range second {
		err := call.ends(t, recovery+t.handOff(), all[i].name+" beside another that was cancelled")
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			t.fatalf("%s beside another that was cancelled: %v, although its own context has not ended", all[i].name, err)
		}
	}
	t.usable(c)
	for _, g := range t.grantsOf(free) {
		_ = g.Release(t.ctx)
	}
	for _, key := range free {
		t.becomesFree(t.b, key, recovery, "after attempts of which one was cancelled")
	}
}

// grantsOf returns the leases that were granted on keys.
func (t *trial) grantsOf(keys []string) (grants []*grant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range t.grants {
		for _, key := range keys {
			if g.key == key {
				grants = append(grants, g)
			}
		}
	}
	return grants
}
