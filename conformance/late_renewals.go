package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

func lateAnswerRevivesNothing(t *trial) {
	t.eachRenewal(1, func(_ int, way renewal) {
		c, link := t.linked()
		g := t.acquire(c, t.newKey(), 2*t.short())
		link.Hold(FromStore)
		renewal := t.call(func() error { return way.renew(t.ctx, g, 2*t.short()) })
		t.losesInTime(g)
		link.Heal()
		healed := time.Now()
		if err := renewal.ends(t, soon, way.what+" whose answer came after the deadline"); err == nil {
			t.fatalf("%s whose answer came after the deadline succeeded", way.what)
		}
		t.isLost(way.renew(t.ctx, g, 2*t.short()), way.what+" after the deadline")
		t.becomesFree(t.b, g.key, time.Until(t.lastRefusal(healed, g.ttl)),
			"in the TTL of a renewal whose answer came after the deadline")
	})
}

// losesInTime waits for g's deadline, and fails unless Lost closes promptly.
func (t *trial) losesInTime(g *grant) {
	const prompt = 500 * time.Millisecond
	deadline := g.Deadline()
	if !t.within(time.Until(deadline)+prompt, g.Lost()) {
		t.fatalf("Lost is not closed %v after the deadline while the store cannot be reached", time.Since(deadline))
	}
}

func lateShorterRenewIsCounted(t *trial) {
	const held = 400 * time.Millisecond // a client that counts an unanswered request only for a while has stopped by then
	shorter := t.g.Round(max(2*held, t.g.MinTTL) * time.Duration(t.stretch))
	t.eachRenewal(3, func(_ int, way renewal) { // the two requests may arrive in either order
		c, link := t.linked()
		t.usable(c)
		g := t.acquire(c, t.newKey(), t.long())
		link.Hold(ToStore)
		ctx, cancel := context.WithTimeout(t.ctx, lateBy)
		defer cancel()
		begun := time.Now()
		err := t.call(func() error { return way.renew(ctx, g, shorter) }).ends(t, soon, way.what+" without an answer")
		if !t.excused(g, err) {
			t.endsByDeadline(err, way.what+" without an answer")
		}
		time.Sleep(time.Until(begun.Add(held)))
		link.Heal()
		switch err = way.renew(t.ctx, g, t.long()); {
		case t.excused(g, err):
			return
		case errors.Is(err, backend.ErrLost) && time.Since(begun) > shorter/2:
			t.tooLate("a lease of %v ended before it was renewed", shorter)
		case errors.Is(err, backend.ErrLost):
			t.fatalf("%s of a live lease after another went unanswered: %v", way.what, err)
		}
		t.shortenedLate(g, shorter, "whose shorter renewal had gone unanswered before a longer one succeeded")
	})
}

// shortenedLate waits for the effect that a late renewal to shorter may have on g. It fails if the key is granted
// before g's deadline. which describes the holder in the failure message.
func (t *trial) shortenedLate(g *grant, shorter time.Duration, which string) {
	w := t.wait(t.b, g.key, t.short())
	defer w.cancel()
	if !t.within(shorter+t.g.MaxLate+lateBy, w.done) {
		w.cancel()
		_ = g.Release(t.ctx)
		return
	}
	if w.err != nil {
		w.failed(t)
		t.fatalf("a waiting Acquire: %v", w.err)
	}
	if early := g.Deadline().Sub(w.grant.after); early > 0 && !g.gone() {
		t.doubleGrant("a second owner was granted the key %v before the deadline of a holder %s", early, which)
	}
	_ = w.grant.Release(t.ctx)
}
