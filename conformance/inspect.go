package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

var inspectChecks = []Check{
	{
		Name: "InspectReturnsHolder",
		Rule: "Backend.Inspect returns the holder's owner, token and remaining TTL, or 0, to any client; for a free key it " +
			"is the zero Holder",
		run: inspectReturnsHolder,
	},
	{
		Name: "InspectAfterExpiry",
		Rule: "Backend.Inspect reports a key as free when its holder's TTL has run out",
		run:  inspectAfterExpiry,
	},
	{
		Name: "InspectCountsWaiters",
		Rule: "Holder.Waiters is how many wait in the store's own queue, -1 if the store does not know",
		run:  inspectCountsWaiters,
	},
	{
		Name: "InspectHonoursContext",
		Rule: "Backend.Inspect fails with the context's error when that has ended",
		run:  inspectHonoursContext,
	},
	{
		Name: "HeldErrorNamesHolder",
		Rule: "a busy key's error matches ErrHeld and carries the Holder where the store knows it, not who waits for the " +
			"key, nor who held it before; the attempt itself is no waiter",
		run: heldErrorNamesHolder,
	},
}

func inspectReturnsHolder(t *trial) {
	for _, client := range []backend.Backend{t.a, t.b} {
		if h := t.inspectBy(client, t.key); h != (backend.Holder{}) {
			t.fatalf("Inspect of a key never used: %+v, want the zero Holder", h)
		}
	}
	g := t.acquire(t.a, t.key, t.long())
	for _, client := range []backend.Backend{t.a, t.b} {
		if h := t.inspectBy(client, t.key); h.Owner != g.owner || h.Waiters > 0 || h.Waiters < -1 {
			t.fatalf("Inspect of a held key: %+v, want owner %q and no waiters", h, g.owner)
		}
	}
	t.describes(g, t.long())
	t.renew(g, 2*t.long())
	t.describes(g, 2*t.long())
	t.release(g)
	t.staysFree(t.key, "after release")
	if h := t.inspectBy(t.a, t.key); h != (backend.Holder{}) {
		t.fatalf("Inspect of a released key: %+v, want the zero Holder", h)
	}
	modes := t.modes()
	ways := append([]renewal{{what: "Acquire"}}, t.renewals()...)
	t.inChunks(len(modes)*len(ways), 1, func(i int) { t.shrinksTTL(modes[i/len(ways)], ways[i%len(ways)]) })
}

// shrinksTTL acquires a key, and extends the lease by way unless way is only the Acquire. It fails if the TTL that
// Inspect returns does not shrink as time passes. A store may round the TTL to seconds, or to its own unit.
func (t *trial) shrinksTTL(shared bool, way renewal) {
	const most = 3 * time.Second
	unit := max(time.Second, t.g.Granularity)
	pass := unit * 3 / 2
	if pass > most || 2*pass > t.long() {
		return
	}
	g := t.getterOf(shared)(t.a, t.newKey(), t.long())
	if way.renew != nil {
		t.renewBy(g, 2*t.long(), func() error { return way.renew(t.ctx, g, 2*t.long()) })
		t.describes(g, 2*t.long())
	}
	first := t.inspect(g.key).TTL
	from := time.Now()
	time.Sleep(pass)
	passed := time.Since(from)
	last := t.inspect(g.key).TTL
	least := passed - backend.Margin(passed) - unit // the store's clock may be slower
	if first != 0 && last > first-least && !t.deadlineSlides(g) {
		t.fatalf("after %s, Inspect returns a TTL of %v, and %v later still %v", way.what, first, passed, last)
	}
	t.release(g)
}

func inspectAfterExpiry(t *trial) {
	g := t.acquire(t.a, t.key, t.short())
	time.Sleep(time.Until(g.Deadline()))
	const most = 2 // a store may stand still between its look at the expiry and the answer
	negative, pause := 0, max(time.Millisecond, t.g.MaxLate/64)
	for last := t.lastRefusal(g.after, g.ttl); time.Now().Before(last); time.Sleep(pause) {
		if t.inspect(t.key).TTL < 0 { // the store has not removed the lease yet
			negative++
		}
	}
	if negative > most {
		t.fatalf("Inspect has returned a negative TTL %d times", negative)
	}
	t.expire(g)
	t.staysFree(t.key, "after expiry")
	if h := t.inspectBy(t.a, t.key); h != (backend.Holder{}) {
		t.fatalf("Inspect of an expired key: %+v, want the zero Holder", h)
	}
}

func inspectCountsWaiters(t *trial) {
	g := t.acquire(t.a, t.key, t.long())
	var waits []*waiting
	for i := range 3 {
		waits = append(waits, t.wait(t.client(i), t.key, t.long()))
		t.arrived(t.key, i+1)
	}
	h := t.inspect(t.key)
	if h.Waiters != -1 && h.Waiters != len(waits) {
		t.fatalf("Inspect: %+v, want %d waiters or -1", h, len(waits))
	}
	for _, w := range waits {
		w.cancelAndFail(t)
	}
	ok := t.poll(t.handOff(), func() bool {
		h = t.inspect(t.key)
		return h.Waiters <= 0
	})
	if !ok {
		t.fatalf("Inspect: %+v, long after every waiter was cancelled", h)
	}
	t.release(g)
}

func inspectHonoursContext(t *trial) {
	t.acquire(t.a, t.key, t.long())
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	// Repeat, because a store that sends the request anyway races its reply with the end of the context.
	for range 100 {
		if _, err := t.a.Inspect(ctx, t.key); !errors.Is(err, context.Canceled) {
			t.fatalf("Inspect with an ended context: %v, want context.Canceled", err)
		}
	}
}

// heldErrorNamesHolder passes the key from holder to holder, and requests it each time. At first, nobody waits.
func heldErrorNamesHolder(t *trial) {
	g := t.acquire(t.a, t.key, t.long())
	t.refusedBy(t.a, g, 0)
	t.refusedBy(t.b, g, 0)
	var waits []*waiting
	for i := range t.waiters(12) {
		waits = append(waits, t.wait([]backend.Backend{t.b, t.a}[i%2], t.key,
			[]time.Duration{t.long() / 2, 2 * t.long()}[i%2]))
	}
	t.arrived(t.key, len(waits))
	most := len(waits) // the store may remove the place of a granted waiter a little later
	for range 3 {
		for _, client := range []backend.Backend{t.a, t.b, t.a} {
			t.refusedBy(client, g, most)
		}
		t.release(g)
		next := t.firstOf(waits, t.handOff(), "after release")
		g = waits[next].grant
		waits = slices.Delete(waits, next, next+1)
		if len(waits) == 0 {
			break
		}
	}
	t.refusedBy(t.b, g, most)
	t.refusalsAreSeparate()
}

// refusalsAreSeparate checks that the error of one attempt still describes its holder after another attempt, and that
// the TTL in an error is what is left of it.
func (t *trial) refusalsAreSeparate() {
	g, other := t.acquire(t.a, t.newKey(), t.long()), t.acquire(t.b, t.newKey(), 2*t.long())
	var first *backend.HeldError
	if err := t.refusedBy(t.b, g, 0); !errors.As(err, &first) || !first.Holder.Held() {
		return // the store does not know the holder
	}
	then := first.Holder
	t.refusedBy(t.b, other, 0)
	if now := first.Holder; now != then {
		t.fatalf("a HeldError said %+v, and after another attempt, at another key, it says %+v", then, now)
	}
	t.refusalsShowRemainingTTL(g)
	t.release(g)
	t.release(other)
}

// refusalsShowRemainingTTL checks that the TTL in the error of a refused attempt is what is left of the TTL of g. On a
// busy machine, the nodes of a quorum may renew a lease at different times, and Inspect and the attempt may ask
// different nodes. So the check tries three times.
func (t *trial) refusalsShowRemainingTTL(g *grant) {
	const awhile, rounding, tries = 300 * time.Millisecond, 10 * time.Millisecond, 3
	g.ttl = 2 * t.long()
	for n := 1; ; n++ {
		t.renew(g, g.ttl)
		time.Sleep(awhile)
		asked := time.Now()
		left := t.inspect(g.key).TTL
		took := time.Since(asked) // a store may subtract the time that its own request takes
		var held *backend.HeldError
		if err := t.refusedBy(t.b, g, 0); !errors.As(err, &held) || left == 0 ||
			held.Holder.TTL <= left+took+rounding+t.g.Granularity {
			return
		}
		if n == tries {
			t.fatalf("a HeldError has a TTL of %v, of a lease that has %v left", held.Holder.TTL, left)
		}
	}
}

// refusedBy requests the key of g, which others wait for, by client b. It fails unless the error is ErrHeld and names g
// as the holder, if it names any.
func (t *trial) refusedBy(b backend.Backend, g *grant, waiters int) (err error) {
	deadline, begun := g.Deadline(), time.Now()
	_, err = t.requestKey(t.ctx, b, g.key, t.long(), false)
	t.lateOnTimeout(err, begun)
	if !errors.Is(err, backend.ErrHeld) {
		t.fatalf("Acquire of a held key: %v, want ErrHeld", err)
	}
	var held *backend.HeldError
	if !errors.As(err, &held) || !held.Holder.Held() {
		return err // the store does not know the holder
	}
	switch h := held.Holder; {
	case h.Owner != g.owner:
		t.fatalf("a HeldError names %q, want the holder, %q: others wait, or have held the key before", h.Owner, g.owner)
	case h.Token != 0 && h.Token != g.Token():
		t.fatalf("a HeldError has token %d, the lease has %d", h.Token, g.Token())
	case h.Waiters > waiters || h.Waiters < -1:
		t.fatalf("a HeldError counts %d waiters, want %d, or -1: who asks does not wait", h.Waiters, waiters)
	case h.TTL != 0 && h.TTL < time.Until(deadline), h.TTL > t.g.Round(g.ttl)+t.g.MaxLate+backend.Margin(g.ttl):
		t.fatalf("a HeldError has a TTL of %v, of a lease granted for %v that has %v left",
			h.TTL, g.ttl, time.Until(deadline))
	}
	return err
}
