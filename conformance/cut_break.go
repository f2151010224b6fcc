package conformance

import (
	"errors"

	"github.com/anylock/lock/backend"
)

var cutBreakChecks = []Check{
	{
		Name: "CutInsideBreak",
		Rule: "Breaker.Break and Backend.Inspect: whatever byte a connection breaks at, nil means that the lease has " +
			"ended, ErrLost that its owner does not hold the key, and a Holder that is returned is the right one",
		Needs: []Need{needsLinked},
		run:   cutInsideBreak,
	},
}

func cutInsideBreak(t *trial) {
	t.cutEverywhere((*cutter).insideInspect)
	if _, ok := t.a.(backend.Breaker); ok {
		t.cutEverywhere((*cutter).insideBreak)
	}
}

func (x *cutter) insideInspect() {
	t := x.t
	g := t.acquire(t.a, t.newKey(), t.long())
	x.begin()
	h, err := x.client.Inspect(t.ctx, g.key)
	x.end()
	switch {
	case err != nil:
		x.unsure(err, "Inspect")
	case h.Owner != g.owner:
		t.breaksText(inspectRule, "Inspect returns %+v without an error%s, want owner %q", h, x.where(), g.owner)
	}
	t.release(g)
}

// insideBreak breaks the lease of a client without faults.
func (x *cutter) insideBreak() {
	t := x.t
	g := t.acquire(t.a, t.newKey(), t.long())
	x.begin()
	err := x.client.(backend.Breaker).Break(t.ctx, g.key, g.owner)
	x.end()
	switch {
	case err == nil:
		t.free(t.b, g.key, "after Break, nil"+x.where())
	case errors.Is(err, backend.ErrLost): // a Break that was sent again may find its work done
		if h := t.inspect(g.key); h.Owner == g.owner {
			t.fatalf("Break of a live lease%s: %v, and its owner still holds the key", x.where(), err)
		}
	default:
		x.unsure(err, "Break of a live lease")
	}
	_ = g.Release(t.ctx)
	t.becomesFree(t.b, g.key, recovery, "after Break and Release"+x.where())
}
