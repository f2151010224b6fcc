package conformance

import (
	"errors"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// servesEveryMethod calls every method of the trial's two clients, after an event that when names.
func (t *trial) servesEveryMethod(when string) {
	t.everyMethodOf(t.a, when)
	t.everyMethodOf(t.b, when)
}

// everyMethodOf calls every method of c in each mode. A client may have to prepare each of its requests again, at a
// server that has lost them, or on a new connection.
func (t *trial) everyMethodOf(c backend.Backend, when string) {
	for _, shared := range t.modes() {
		t.everyMethodInMode(c, shared, when+inMode(shared))
	}
}

// serves repeats a request until it succeeds. The first ones may meet connections that are broken.
func (t *trial) serves(what, when string, request func() error) {
	var err error
	if !t.poll(recovery, func() bool { err = request(); return err == nil }) {
		t.fatalf("%s, for %v, %s: %v", what, recovery, when, err)
	}
}

func (t *trial) everyMethodInMode(c backend.Backend, shared bool, when string) {
	var g *grant
	t.serves("Acquire", when, func() (err error) {
		g, err = t.request(t.ctx, c, backend.Request{Key: t.newKey(), Owner: backend.NewOwner(), TTL: t.long(),
			Shared: shared})
		return err
	})
	for _, way := range t.renewals() {
		t.serves(way.what, when, func() error { return way.renew(t.ctx, g, t.long()) })
	}
	t.serves("Inspect", when, func() error {
		h, err := c.Inspect(t.ctx, g.key)
		if err == nil && h.Owner != g.owner {
			t.breaksText(inspectRule, "Inspect %s says that %q holds the key, want %q", when, h.Owner, g.owner)
		}
		return err
	})
	if lister, ok := c.(backend.Lister); ok {
		t.serves("List", when, func() error {
			keys, err := lister.List(t.ctx, g.key)
			if err == nil && !slices.Contains(keys, g.key) {
				t.breaksText(inspectRule, "List %s does not return %s, which is held", when, show(g.key))
			}
			return err
		})
	}
	if resumer, ok := c.(backend.Resumer); ok {
		t.serves("Resume", when, func() error {
			_, err := resumer.Resume(t.ctx, backend.Request{Key: g.key, Owner: g.owner, TTL: t.long(), Shared: shared})
			return err
		})
	}
	w := t.waitServed(c, g.key, t.g.Shared && !shared, when)
	t.endServed(c, g, when)
	t.release(w.granted(t, t.handOff()+recovery, "after the end of a lease, "+when))
	t.becomesFree(c, g.key, recovery, "after the last release, "+when)
}

// waitServed starts a wait, and returns when the store has reported that the key is busy.
func (t *trial) waitServed(c backend.Backend, key string, shared bool, when string) (w *waiting) {
	t.serves("Acquire that waits", when, func() error {
		w = t.begin(t.ctx, c, backend.Request{Key: key, Owner: backend.NewOwner(), TTL: t.long(), Wait: true,
			Shared: shared})
		t.poll(soon, func() bool { return t.inspect(key).Waiters != 0 || w.ended() })
		if t.within(t.h.ArrivalDelay*time.Duration(t.stretch), w.done) {
			return w.err
		}
		return nil
	})
	return w
}

// endServed ends g by Break, if c supports it, and by Release otherwise.
func (t *trial) endServed(c backend.Backend, g *grant, when string) {
	breaker, ok := c.(backend.Breaker)
	if !ok {
		t.serves("Release", when, func() error { return g.Release(t.ctx) })
		return
	}
	tried := false
	t.serves("Break", when, func() error {
		err := breaker.Break(t.ctx, g.key, g.owner)
		if tried && errors.Is(err, backend.ErrLost) {
			return nil // an earlier attempt without a reply has ended the lease
		}
		tried = true
		return err
	})
}
