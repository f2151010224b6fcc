package conformance

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
)

func cancelledAfterGrant(t *trial) {
	for _, wait := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.ctx)
		t.outlivesContext(ctx, cancel, wait)
		ctx, cancel = context.WithTimeout(t.ctx, t.short())
		t.outlivesContext(ctx, func() { <-ctx.Done(); cancel() }, wait)
	}
	t.outlivesDeadlineOfWait()
	t.cancelledAfterRenewal()
	t.cancelledAfterOpen()
}

// cancelledAfterOpen lets the deadline pass of the context with which a client was opened. The client must serve as
// before.
func (t *trial) cancelledAfterOpen() {
	ctx, cancel := context.WithTimeout(t.ctx, t.passing())
	defer cancel()
	c := t.openWith(ctx)
	g := t.acquire(c, t.newKey(), t.long())
	busy := t.acquire(t.a, t.newKey(), t.long())
	w := t.wait(c, busy.key, t.long())
	t.arrived(busy.key, 1)
	<-ctx.Done()
	t.refusedFor(t.b, g, t.short()/2)
	t.heldBy(g)
	w.stillWaits(t, busy, t.rule)
	t.renew(g, t.long())
	t.release(busy)
	t.release(w.granted(t, t.handOff(), "after release, to a client whose Open's context has ended"))
	t.release(g)
	t.free(c, g.key, "by a client whose Open's context has ended")
}

// outlivesDeadlineOfWait waits for a key with a context that has a deadline, and fails unless the lease outlives that
// deadline.
func (t *trial) outlivesDeadlineOfWait() {
	first := t.acquire(t.b, t.newKey(), t.long())
	ctx, cancel := context.WithTimeout(t.ctx, t.awaited()+t.short())
	defer cancel()
	w := t.waitWith(ctx, t.a, first.key, t.long())
	t.arrived(first.key, 1)
	t.release(first)
	if t.within(t.handOff(), w.done) && w.contextEnded {
		t.provesNothing("a wait's own context ended before its turn")
	}
	g := w.granted(t, tick, "after release")
	t.describes(g, t.long())
	<-ctx.Done()
	t.refusedFor(t.b, g, t.short()/2)
	t.heldBy(g)
	t.release(g)
}

// outlivesContext acquires the key with ctx, and fails unless the lease is still held when end has ended ctx.
func (t *trial) outlivesContext(ctx context.Context, end func(), wait bool) {
	begun := time.Now()
	g, err := t.requestKey(ctx, t.a, t.key, t.long(), wait)
	t.lateOnTimeout(err, begun)
	if err != nil {
		t.fatalf("Acquire of a free key: %v", err)
	}
	t.describes(g, t.long())
	end()
	t.refusedFor(t.b, g, t.short()/2)
	t.heldBy(g)
	t.renew(g, t.long())
	t.release(g)
}

// cancelledAfterRenewal ends the contexts of renewals, and of Resume, that have succeeded: by cancellation or by their
// deadline.
func (t *trial) cancelledAfterRenewal() {
	ways := t.renewals()
	if resumer, ok := t.b.(backend.Resumer); ok {
		ways = append(ways, renewal{"Resume", func(ctx context.Context, g *grant, ttl time.Duration) error {
			_, err := resumer.Resume(ctx, backend.Request{Key: g.key, Owner: g.owner, TTL: ttl})
			return err
		}})
	}
	t.inChunks(2*len(ways), 2, func(i int) {
		g, way := t.acquire(t.a, t.newKey(), t.long()), ways[i/2]
		ctx, cancel := context.WithCancel(t.ctx)
		if i%2 == 1 {
			ctx, cancel = context.WithTimeout(t.ctx, t.passing())
		}
		defer cancel()
		if way.what != "Resume" { // the first client of a resumed lease keeps its deadline
			g.ttl = 2 * t.long()
		}
		before := time.Now()
		t.renewBy(g, g.ttl, func() error { return way.renew(ctx, g, g.ttl) })
		if way.what != "Resume" {
			t.keepsDeadline(g, g.ttl, before, time.Now(), way.what)
		}
		deadline := g.Deadline()
		if i%2 == 1 {
			<-ctx.Done()
		}
		cancel()
		t.refusedFor(t.b, g, t.short()/2)
		if !t.sameDeadline(g, deadline) {
			t.fatalf("the end of the context of %s, which had returned, moved the deadline", way.what)
		}
		t.describes(g, g.ttl)
		t.heldBy(g)
		t.renew(g, t.long())
		t.release(g)
	})
}
