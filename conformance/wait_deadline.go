package conformance

import (
	"context"
	"errors"
	"time"
)

// waitsUntilDeadlines makes waits whose contexts have deadlines. A store that counts the time of a wait in whole
// seconds, or ends the wait somewhat before its context, returns too early.
func (t *trial) waitsUntilDeadlines() {
	const early = 2 * tick // what a coarse clock may explain
	modes := t.modes()
	limits := []time.Duration{450 * time.Millisecond, 1300 * time.Millisecond, 1700 * time.Millisecond}
	t.inChunks(len(limits)*len(modes), 2, func(i int) {
		limit, shared := limits[i/len(modes)]*time.Duration(t.stretch), modes[i%len(modes)]
		g := t.acquire(t.client(i), t.newKey(), t.long())
		ctx, cancel := context.WithTimeout(t.ctx, limit)
		defer cancel()
		deadline, _ := ctx.Deadline()
		var w *waiting
		if shared {
			w = t.waitToReadWith(ctx, t.client(i/2), g.key, t.long())
		} else {
			w = t.waitWith(ctx, t.client(i/2), g.key, t.long())
		}
		t.within(limit, w.done)
		switch err := w.fails(t, "Acquire of a held key with a timeout"); {
		case !errors.Is(err, context.DeadlineExceeded):
			w.unavailable(t)
			t.breaks(4, "Acquire of a held key with a timeout: %v, want context.DeadlineExceeded", err)
		case deadline.Sub(w.begun.Add(w.took)) > early:
			t.breaks(4, "Acquire of a held key with a timeout of %v returned the context's error after %v", limit, w.took)
		}
		t.release(g)
	})
}
