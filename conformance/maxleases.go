package conformance

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

var maxLeasesChecks = []Check{
	{
		Name: "MaxLeasesAreGranted",
		Rule: "Guarantees.MaxLeases: a client holds as many leases at once; one more is ErrUnavailable, or " +
			"waits for its turn, until its context ends or the client is closed; leases that it has waited for take no " +
			"place in a queue",
		Needs: []Need{needsMaxLeases},
		alone: true, // the limit may apply to all clients together
		run:   maxLeasesAreGranted,
	},
}

func maxLeasesAreGranted(t *trial) {
	const most = 1000
	if t.g.MaxLeases > most {
		t.skipf("Guarantees.MaxLeases is %d, more than this check holds", t.g.MaxLeases)
	}
	c := t.open()
	t.resumesFor(c)
	t.queuesBesideLeases(c)
	var mu sync.Mutex
	var held []*grant
	t.together(t.g.MaxLeases, func(i int) {
		g := t.getterOf(t.g.Shared && i%3 == 2)(c, t.newKey(), t.long())
		mu.Lock()
		held = append(held, g)
		mu.Unlock()
	})
	for range 2 {
		_, err := t.requestKey(t.ctx, c, t.newKey(), t.long(), false)
		if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrHeld) {
			t.fatalf("Acquire of a free key by a client that holds MaxLeases, %d: %v, want ErrUnavailable", len(held), err)
		}
	}
	gaveUp := t.wait(c, t.newKey(), t.long())
	time.Sleep(t.h.ArrivalDelay)
	gaveUp.cancelAndFail(t)
	w := t.wait(c, t.newKey(), t.long())
	time.Sleep(t.h.ArrivalDelay * time.Duration(t.stretch))
	if w.ended() {
		t.fatalf("an Acquire that waits for its turn among MaxLeases, %d, ended: %v", len(held), w.err)
	}
	for _, g := range held {
		t.renew(g, t.long())
	}
	t.release(held[0])
	held[0] = w.granted(t, t.handOff(), "after the release of one of MaxLeases")
	if breaker, ok := t.b.(backend.Breaker); ok {
		t.mustBreak(breaker, held[0])
		t.wantLost("Renew of a lease that was broken", func() error { return held[0].Renew(t.ctx, t.long()) })
		held[0] = t.hasRoom(c)
	}
	for _, g := range held {
		t.refused(t.b, g)
	}
	ttl := t.awaited() // the leases outlive their client, and the store may have little room for other checks
	for _, g := range held {
		t.renew(g, ttl)
	}
	last := t.wait(c, t.newKey(), ttl)
	time.Sleep(t.h.ArrivalDelay)
	closing := time.Now()
	t.closes(c)
	if last.ended() && last.err == nil {
		t.tooLate("a lease ended before its client was closed")
	}
	if !t.within(t.short()/2, last.done) { // before the leases end
		t.breaksText(closeRule, "an Acquire that waits for its turn among MaxLeases has not returned when Close has")
	}
	last.fails(t, "Acquire waiting for its turn among MaxLeases at Close")
	last.endsByClose(t, closing, "Acquire waiting for its turn among MaxLeases at Close")
	t.outlast(t.lastRefusal(closing, ttl))
}

// queuesBesideLeases fails if c, which has waited for half of its leases, is overtaken in the queue for another key.
func (t *trial) queuesBesideLeases(c backend.Backend) {
	const least, most = 6, 32 // least: the limit may apply to all clients together
	if !t.g.FIFO || t.g.MaxLeases < least {
		return
	}
	held := make([]*grant, min(t.g.MaxLeases/2, most))
	for i := range held {
		first := t.acquire(t.a, t.newKey(), t.long())
		w := t.wait(c, first.key, t.long())
		t.arrived(first.key, 1)
		t.release(first)
		held[i] = w.granted(t, t.handOff(), "after release")
	}
	g := t.acquire(t.a, t.newKey(), t.long())
	l := t.newLine(g.key)
	l.after = fmt.Sprintf("; the client of the first one holds %d leases that it has waited for", len(held))
	l.join(c, t.long(), false)
	l.join(t.b, t.long(), false)
	t.release(g)
	l.inOrder(2 * t.handOff())
	for _, g := range held {
		t.release(g)
	}
}

// resumesFor resumes leases by c that end by a release and by an expiry. Neither counts among MaxLeases of c any more.
func (t *trial) resumesFor(c backend.Backend) {
	if _, ok := c.(backend.Resumer); !ok {
		return
	}
	ends := []func(resumed *grant){t.release, t.expire}
	for _, shared := range t.modes() {
		for i, ttl := range []time.Duration{t.long(), t.short()} {
			first := t.getterOf(shared)(t.b, t.newKey(), t.long())
			ends[i](t.resume(c, first, ttl))
			_ = first.Release(t.ctx) // its client does not know yet that the lease has ended
		}
	}
}

// hasRoom acquires a key by c, which may need some time to notice that one of its leases was broken.
func (t *trial) hasRoom(c backend.Backend) (g *grant) {
	key := t.newKey()
	if !t.poll(t.handOff(), func() bool { g, _ = t.attempt(c, key, t.long()); return g != nil }) {
		t.fatalf("after Break of one of MaxLeases, no attempt is granted another one")
	}
	return g
}
