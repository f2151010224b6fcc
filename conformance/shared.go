package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// sharedGroup is the group of checks on shared leases.
const sharedGroup = "shared"

var needsShared = Need{"Guarantees.Shared",
	"the store has no shared leases (Guarantees.Shared)",
	func(g backend.Guarantees, _ Harness) bool { return g.Shared }}

// sharedChecks returns the checks on shared leases. All of them need a store with Guarantees.Shared.
func sharedChecks() [][]Check {
	topics := [][]Check{sharedExclusionChecks, sharedOrderChecks, sharedQueueChecks, sharedWakeChecks, sharedTTLChecks,
		sharedOwnershipChecks, sharedRenewalChecks, sharedStaleChecks, sharedReportChecks, sharedFaultChecks,
		sharedProcessChecks, sharedCrowdChecks, sharedHistoryChecks}
	for i, checks := range topics {
		topics[i] = slices.Clone(checks)
		for j, c := range checks {
			topics[i][j].Needs = append([]Need{needsShared}, c.Needs...)
		}
	}
	return topics
}

// modes returns the modes of leases that the store has: shared (true) or not.
func (t *trial) modes() []bool {
	if t.g.Shared {
		return []bool{false, true}
	}
	return []bool{false}
}

// getterOf returns the function that acquires a free key in the given mode.
func (t *trial) getterOf(shared bool) getter {
	if shared {
		return t.read
	}
	return t.acquire
}

// share makes a shared request that does not wait, and requires a reply from the store.
func (t *trial) share(b backend.Backend, key string, ttl time.Duration) (*grant, error) {
	begun := time.Now()
	g, err := t.request(t.ctx, b, backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl, Shared: true})
	t.lateOnTimeout(err, begun)
	return g, err
}

// read acquires a shared lease of a key that no exclusive request holds or waits for.
func (t *trial) read(b backend.Backend, key string, ttl time.Duration) *grant {
	g, err := t.share(b, key, ttl)
	if err != nil {
		t.fatalf("shared Acquire of a key that nobody holds or waits for exclusively: %v", err)
	}
	return g
}

// waitToRead starts a shared Acquire that waits.
func (t *trial) waitToRead(b backend.Backend, key string, ttl time.Duration) *waiting {
	return t.waitToReadWith(t.ctx, b, key, ttl)
}

func (t *trial) waitToReadWith(ctx context.Context, b backend.Backend, key string, ttl time.Duration) *waiting {
	return t.begin(ctx, b, backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl, Wait: true, Shared: true})
}

// readers acquires n shared leases of key, by both clients in turn.
func (t *trial) readers(key string, n int, ttl time.Duration) (readers []*grant) {
	for i := range n {
		readers = append(readers, t.read(t.client(i), key, ttl))
	}
	return readers
}

// readersEnter waits until all of waits share their key, which must happen within d.
func (t *trial) readersEnter(waits []*waiting, d time.Duration, when string) (readers []*grant) {
	end := time.Now().Add(d)
	for i, w := range waits {
		if !t.within(max(tick, time.Until(end)), w.done) {
			t.notInTime(t.ruleText(9),
				"%s: %d of %d readers that wait one after the other have entered within %v, beside each other",
				when, i, len(waits), d)
		}
		readers = append(readers, w.granted(t, tick, when))
	}
	for _, g := range readers {
		if g.gone() && g.live(time.Now()) {
			t.breaks(6, "%s: Lost of a reader is closed before its deadline", when)
		}
	}
	return readers
}

// noReaderEnters makes shared attempts by both clients. They must be refused, because an exclusive request waits for
// key.
func (t *trial) noReaderEnters(key, when string) {
	for _, b := range []backend.Backend{t.a, t.b} {
		g, err := t.share(b, key, t.long())
		switch {
		case g != nil: // a store may forget a waiter whose client stood still, or the waiter may not have been sent yet
			t.pulse.catchUp()
			t.notInTime(t.ruleText(9),
				"%s: a shared request that does not wait was granted the key, which an exclusive request waits for", when)
		case !errors.Is(err, backend.ErrHeld):
			t.breaksText(refuseRule, "%s: shared Acquire: %v, want ErrHeld", when, err)
		}
	}
}

// readersKeepOut fails unless readers still hold their key: each is renewed, and an exclusive request is refused.
func (t *trial) readersKeepOut(readers []*grant, when string) {
	if len(readers) > 0 {
		t.holdersAre(readers, when)
	}
	for i, g := range readers {
		if g.gone() && g.live(time.Now()) {
			t.breaks(6, "%s: Lost of another reader is closed before its deadline", when)
		}
		t.refused(t.client(i), g)
		t.renew(g, g.ttl)
	}
}

// holdersAre fails unless Inspect returns readers as the holders of their key.
func (t *trial) holdersAre(readers []*grant, when string) {
	h := t.inspect(readers[0].key)
	if h.Shared != len(readers) && anyExpired(readers) {
		t.lateFor(ttlRule, false, "%s: a reader's lease ended before it was counted", when)
	}
	if h.Shared != len(readers) {
		t.breaksText(inspectRule, "%s: Inspect returns %d shared leases (%+v), want %d", when, h.Shared, h, len(readers))
	}
	t.namesReader(h, readers, when)
}

// anyExpired reports whether the deadline of one of grants has passed.
func anyExpired(grants []*grant) bool {
	return slices.ContainsFunc(grants, func(g *grant) bool { return !g.live(time.Now()) })
}

// namesReader fails unless h names one of readers. If h has a token or a TTL, the token must be that reader's, and the
// TTL must last until the last of readers ends.
func (t *trial) namesReader(h backend.Holder, readers []*grant, when string) {
	i := slices.IndexFunc(readers, func(g *grant) bool { return g.owner == h.Owner })
	if i < 0 && !readers[len(readers)-1].live(time.Now()) {
		t.lateFor(ttlRule, false, "%s: a lease ended before Inspect was made", when)
	}
	if i < 0 {
		t.breaksText(inspectRule, "%s: Inspect names %q, who is not one of %d readers", when, h.Owner, len(readers))
	}
	g := readers[i]
	last := slices.MaxFunc(readers, func(x, y *grant) int { return x.Deadline().Compare(y.Deadline()) })
	switch {
	case h.Token != 0 && h.Token != g.Token():
		t.breaksText(inspectRule, "%s: Inspect returns token %d, the lease has %d", when, h.Token, g.Token())
	case h.TTL != 0 && h.TTL < time.Until(last.Deadline()):
		t.breaksText(inspectRule, "%s: Inspect returns a TTL of %v, when the lease that ends last has %v left", when, h.TTL,
			time.Until(last.Deadline()))
	case h.TTL > t.g.Round(g.ttl)+t.g.MaxLate+backend.Margin(g.ttl):
		t.breaksText(inspectRule, "%s: Inspect returns a TTL of %v, of a lease granted for %v", when, h.TTL, g.ttl)
	}
}

// mustBeFree acquires key exclusively by one attempt, which the store must no longer refuse, and releases it.
func (t *trial) mustBeFree(b backend.Backend, key, when string) {
	g, err := t.attempt(b, key, t.long())
	if err != nil {
		t.notInTime(t.rule, "%s: the key is not free: %v", when, err)
	}
	t.release(g)
}

// nobodyPasses calls release, while readers and writers attempt to acquire the key that w waits for, until w has it.
func (t *trial) nobodyPasses(w *waiting, release func()) {
	const most = 100 // attempts after the release
	released := make(chan struct{})
	t.spawn(func() { defer close(released); release() })
	for n, after := 0, 0; !w.ended() && after < most && !t.ended(); n++ {
		select {
		case <-released:
			after++
		default:
		}
		r := backend.Request{Key: w.key, Owner: backend.NewOwner(), TTL: t.long(), Shared: n%4 < 3}
		begun := time.Now()
		g, err := t.request(t.ctx, t.client(n), r)
		t.lateOnTimeout(err, begun)
		switch {
		case g == nil:
		case w.ended() && w.grant != nil && w.grant.live(g.after):
			t.doubleGrant("an attempt%s was granted the key %v before the deadline of a writer", inMode(r.Shared),
				w.grant.Deadline().Sub(g.after))
		default:
			t.breaks(9, "an attempt%s that met the end of the last lease was granted the key before a waiting writer",
				inMode(r.Shared))
		}
	}
	<-released
}
