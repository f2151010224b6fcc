package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

// strandedAttempts makes attempts, some of which may wait, whose request is stuck on a dead connection. Some clients
// notice at once that the connection has ended. A client may send the request again, by a new connection, and be
// granted the key. The copy on the dead connection then reaches the store late: after a renewal for longer, which it
// must not undo, or just after the release.
func (t *trial) strandedAttempts() {
	modes := t.modes()
	n := 4 * len(modes)
	t.inChunks(2*(n+len(modes)), 2, func(i int) {
		c, link, end := t.strandable()
		defer end()
		orphan := i%2 == 1
		if _, ok := link.(OrphaningLink); orphan && !ok {
			return
		}
		if i /= 2; i >= n {
			t.strandedWait(c, link, modes[i-n], orphan)
			return
		}
		key := t.newKey()
		link.Hold(ToStore)
		ctx, cancel := context.WithTimeout(t.ctx, recovery)
		defer cancel()
		var g *grant
		attempt := t.call(func() (err error) {
			r := backend.Request{Key: key, Owner: backend.NewOwner(), TTL: t.long(), Wait: i/2%2 == 1,
				Shared: modes[i/4]}
			g, err = t.request(ctx, c, r)
			return err
		})
		time.Sleep(underWay)
		strand(link, orphan)
		if attempt.ends(t, 2*recovery, "Acquire whose connection is dead") != nil {
			return // other checks test the cleanup
		}
		if i%2 == 0 {
			t.renew(g, 2*t.long())
			link.DeliverStranded()
			time.Sleep(lateBy) // sleeps: the copy reaches the store
			t.describes(g, 2*t.long())
			t.refused(t.b, g)
			t.release(g)
		} else {
			t.copyComesLate(link, t.releasesSoon(g))
		}
		t.becomesFree(t.b, key, recovery, "after a release, and a late copy of the attempt")
	})
}

// strandedTurns strands the request that a client makes when its waiter has its turn. Some clients give up the first
// request of an attempt, which strandedAttempts strands, but send that of a waiter again. The copy reaches the store
// late, when the lease has been renewed, and must not shorten the lease.
func (t *trial) strandedTurns() {
	if t.mayEndLeases() {
		return // the dead connection may have the lease
	}
	modes := t.modes()
	t.inChunks(len(modes), 2, func(i int) {
		c, link, end := t.strandable()
		defer end()
		held := t.acquire(t.a, t.newKey(), t.long())
		w := t.begin(t.ctx, c, backend.Request{Key: held.key, Owner: backend.NewOwner(), TTL: t.long(), Wait: true,
			Shared: modes[i]})
		t.confirmQueued(held.key, 1)
		link.Hold(ToStore)
		t.release(held)
		time.Sleep(underWay) // sleeps: the request may be under way
		link.Strand()
		t.usable(c)
		g := w.granted(t, recovery+t.g.MaxLate, "after release, when a connection of the waiter's client was dead")
		var err error
		if !t.poll(recovery, func() bool { err = g.Renew(t.ctx, 2*t.long()); return err == nil || g.gone() }) || err != nil {
			if g.gone() && t.kept(g.ttl) < g.ttl {
				t.notInTime(t.rule, "a lease was lost without contact: %v", err)
			}
			t.fatalf("Renew of a live lease, whose client has connected again: %v", err)
		}
		link.DeliverStranded()
		time.Sleep(lateBy) // sleeps: the copy reaches the store
		t.describes(g, 2*t.long())
		t.heldBy(g)
		t.release(g)
		t.becomesFree(t.b, g.key, recovery, "after a release, and a late copy of a waiter's request")
	})
}

// strandedAnswers ends the contexts of attempts that the store has granted, and whose answers are stuck on a dead
// connection. The store does not notice that their client is gone, so the client must clean up by a new connection.
func (t *trial) strandedAnswers() {
	modes := t.modes()
	t.inChunks(2*len(modes), 1, func(i int) {
		c, link, end := t.strandable()
		defer end()
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
			t.releasesSoon(w.grant)
		}
		if t.mayEndLeases() { // the lease may last as long as the store does not notice that the connection is dead
			link.Heal()
		}
		t.becomesFree(t.b, r.Key, recovery, "after a cancelled attempt whose answer is stuck on a dead connection")
	})
}

// strandedWait makes a request that waits for a busy key, and whose first copy is stuck on a dead connection. A client
// may send the request again, by a new connection, learn that the key is busy, and be granted the key later. The first
// copy reaches the store just after the release.
func (t *trial) strandedWait(c backend.Backend, link StrandingLink, shared, orphan bool) {
	busy := t.acquire(t.a, t.newKey(), t.long())
	link.Hold(ToStore)
	w := t.begin(t.ctx, c, backend.Request{Key: busy.key, Owner: backend.NewOwner(), TTL: t.long(), Wait: true,
		Shared: shared})
	time.Sleep(underWay) // sleeps: the request may be under way
	from := link.Passed(ToStore)
	strand(link, orphan)
	if t.poll(recovery, func() bool { return w.ended() || link.Passed(ToStore) > from }) {
		time.Sleep(t.h.ArrivalDelay * time.Duration(t.stretch)) // so that the waiter knows that the key is busy
	}
	t.release(busy)
	if !t.within(recovery+t.g.MaxLate, w.done) || w.err != nil {
		w.cancel()
		return // other checks test the cleanup, and that waiters are served
	}
	t.copyComesLate(link, t.releasesSoon(w.grant))
	t.becomesFree(t.b, busy.key, recovery, "after the release by a waiter, and a late copy of its request")
}

// strand makes the connections of link dead. If orphan is set, the client notices at once.
func strand(link StrandingLink, orphan bool) {
	if orphan {
		link.(OrphaningLink).Orphan()
	} else {
		link.Strand()
	}
}

// copyComesLate delivers the copy of a request whose lease was released at released.
func (t *trial) copyComesLate(link StrandingLink, released time.Time) {
	link.DeliverStranded()
	if late := time.Since(released); late > lateBy {
		t.provesNothing("the copy was sent %v after the release", late) // a store cannot wait for copies for ever
	}
	time.Sleep(lateBy) // sleeps: the copy reaches the store
	if late := time.Since(released); late > 3*lateBy {
		t.provesNothing("the copy may have come %v after the release", late)
	}
}

// releasesSoon releases g, whose client may have to replace dead connections first, and returns when the last request
// was sent.
func (t *trial) releasesSoon(g *grant) (sent time.Time) {
	var err error
	t.poll(recovery, func() bool {
		sent = time.Now()
		err = g.Release(t.ctx)
		return err == nil || errors.Is(err, backend.ErrLost)
	})
	if err != nil {
		t.fatalf("Release of a live lease, whose client has connected again: %v", err)
	}
	return sent
}
