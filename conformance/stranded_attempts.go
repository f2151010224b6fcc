package conformance

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
)

// strandedAttempts makes attempts, some of which may wait, whose request is stuck on a dead connection. A client may
// send the request again, by a new connection, and be granted the key. The copy on the dead connection then reaches the
// store late: after a renewal for longer, which it must not undo, or just after the release. Some clients give up a
// first request, but send that of a waiter again, which they make when the waiter has its turn.
func (t *trial) strandedAttempts() {
	const kinds = 3 // an attempt, one that may wait, and one that has waited
	modes := t.modes()
	t.inChunks(2*kinds*len(modes), 2, func(i int) {
		c, link := t.strandable()
		ctx, cancel := context.WithTimeout(t.ctx, 2*recovery)
		defer cancel()
		r := backend.Request{Key: t.newKey(), Owner: backend.NewOwner(), TTL: t.long(), Wait: i/2%kinds > 0,
			Shared: modes[i/2/kinds]}
		waits := i/2%kinds == 2
		var held *grant
		if waits {
			held = t.acquire(t.a, r.Key, t.long())
		} else {
			link.Hold(ToStore)
		}
		attempt := t.begin(ctx, c, r)
		if waits {
			t.confirmQueued(r.Key, 1)
			link.Hold(ToStore)
			t.release(held)
		}
		time.Sleep(underWay)
		link.Strand()
		if !t.within(3*recovery, attempt.done) {
			t.fatalf("Acquire whose connection is dead has not returned after %v", 3*recovery)
		}
		if attempt.err != nil {
			return // other checks test the cleanup
		}
		g, key := attempt.grant, r.Key
		if i%2 == 0 {
			t.renew(g, 2*t.long())
			link.DeliverStranded()
			time.Sleep(lateBy) // sleeps: the copy reaches the store
			t.describes(g, 2*t.long())
			t.refused(t.b, g)
			t.release(g)
		} else {
			t.release(g)
			released := time.Now()
			link.DeliverStranded()
			if late := time.Since(released); late > lateBy {
				t.provesNothing("the copy was sent %v after the release", late) // a store cannot wait for copies for ever
			}
			time.Sleep(lateBy) // sleeps: the copy reaches the store
		}
		t.becomesFree(t.b, key, recovery, "after a release, and a late copy of the attempt")
	})
}

// strandedAnswers ends the contexts of attempts that the store has granted, and whose answers are stuck on a dead
// connection. The store does not notice that their client is gone, so the client must clean up by a new connection.
func (t *trial) strandedAnswers() {
	modes := t.modes()
	t.inChunks(2*len(modes), 1, func(i int) {
		c, link := t.strandable()
		r := backend.Request{Key: t.newKey(), Owner: backend.NewOwner(), TTL: t.long(), Wait: i%2 == 1, Shared: modes[i/2]}
		link.Hold(FromStore)
		w := t.begin(t.ctx, c, r)
		t.poll(soon, func() bool { return t.inspect(r.Key).Owner == r.Owner || w.ended() })
		link.Strand()
		w.cancel()
		t.usable(c)
		if !t.within(recovery, w.done) {
			t.breaks(4, "a cancelled Acquire has not returned %v after its client connected again", recovery)
		}
		if w.err == nil { // the client has sent the attempt again
			t.release(w.grant)
		}
		t.becomesFree(t.b, r.Key, recovery, "after a cancelled attempt whose answer is stuck on a dead connection")
	})
}
