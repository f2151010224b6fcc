package conformance

import (
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

var replyChecks = []Check{
	{
		Name: "LostAcquireReplyLeavesNothing",
		Rule: "rule 4: an Acquire whose answer is lost is granted, or fails and is cleaned up; " +
			"it is never refused because of its own ghost",
		Needs: []Need{needsLinked},
		run:   lostAcquireReplyLeavesNothing,
	},
	{
		Name:  "LostWaitReplyIsOutlived",
		Rule:  "rules 4 and 9: a waiter that misses the answer with its grant finds that out, and gets the key",
		Needs: []Need{needsLinked},
		run:   lostWaitReplyIsOutlived,
	},
	{
		Name:  "LostRenewReplyKeepsLease",
		Rule:  "Lease.Renew: an answer that is lost means unknown: the lease stands, and another attempt is safe",
		Needs: []Need{needsLinked},
		run:   lostRenewReplyKeepsLease,
	},
	{
		Name:  "LostReleaseReplyIsNoLoss",
		Rule:  "Lease.Release: ErrLost means that the lease had ended before, not that this release's answer was lost",
		Needs: []Need{needsLinked},
		run:   lostReleaseReplyIsNoLoss,
	},
	{
		Name: "LostRefusalChangesNothing",
		Rule: "rule 3: an attempt that was refused and did not get the answer changes nothing, neither then nor " +
			"after the release",
		Needs: []Need{needsLinked},
		run:   lostRefusalChangesNothing,
	},
}

// A call is a request that is under way on a goroutine of its own.
type call struct {
	done chan struct{}
	err  error // set when done is closed
}

func (t *trial) call(f func() error) *call {
	c := &call{done: make(chan struct{})}
	t.spawn(func() {
		defer close(c.done)
		c.err = errors.New("ended without an answer") // kept if f ends its goroutine
		c.err = f()
	})
	return c
}

// ends waits for the call to return, which it must within d.
func (c *call) ends(t *trial, d time.Duration, what string) error {
	if !t.within(d, c.done) {
		t.fatalf("%s has not returned after %v", what, d)
	}
	return c.err
}

// usable waits until c works and has connections, whatever faults came before.
func (t *trial) usable(c backend.Backend) { t.becomesFreeAfterOutage(c, t.newKey()) }

// dropReplies calls request and drops every reply of the store. It waits until seen reports that the store has served
// the request, or gives up after a while. Then it breaks the connections that lost data. It reports whether the request
// was seen.
func (t *trial) dropReplies(link Link, request func(), seen func() bool) bool {
	const patience = 500 * time.Millisecond // without replies, a client that must connect first never sends it
	link.Drop(FromStore)
	request()
	reached := t.poll(patience, seen)
	link.Heal()
	return reached
}

// sent returns a function that reports whether the client has sent something, and the store has had a moment to serve
// it.
func (t *trial) sent(link Link) (seen func() bool) {
	const moment = 50 * time.Millisecond
	before := link.Passed(ToStore)
	var since time.Time
	return func() bool {
		if since.IsZero() && link.Passed(ToStore) > before {
			since = time.Now()
		}
		return !since.IsZero() && time.Since(since) > moment
	}
}

// excused reports whether err is a loss that this store may report when connections break. Lost must be closed too.
func (t *trial) excused(g *grant, err error) bool {
	return errors.Is(err, backend.ErrLost) && t.g.EarlyLoss != "" && g.gone()
}

const lostReplies = 3 // how often a reply is lost in each check

func lostAcquireReplyLeavesNothing(t *trial) {
	c, link := t.linked()
	for range lostReplies {
		t.usable(c)
		r := backend.Request{Key: t.newKey(), Owner: backend.NewOwner(), TTL: t.long()}
		var w *waiting
		t.dropReplies(link, func() { w = t.begin(t.ctx, c, r) }, func() bool { return t.inspect(r.Key).Owner == r.Owner })
		if !t.within(recovery, w.done) {
			t.fatalf("Acquire whose answer was lost has not returned %v after the outage", recovery)
		}
		switch {
		case errors.Is(w.err, backend.ErrHeld):
			t.fatalf("Acquire whose answer was lost: %v, though nobody but itself ever had the key", w.err)
		case w.err != nil:
			t.becomesFree(t.b, r.Key, recovery, "after an Acquire whose answer was lost with its connection")
			own := t.acquire(c, r.Key, t.long()) // cleanup may still be under way
			t.refusedFor(t.b, own, lateBy)
			t.heldBy(own)
			t.release(own)
		default: // each copy of the request may have started the TTL again, and a client may take long to send another
			t.describesLater(w.grant, t.long(), recovery)
			t.heldBy(w.grant)
			t.release(w.grant)
			t.free(t.b, r.Key, "after release")
		}
	}
}

func lostWaitReplyIsOutlived(t *trial) {
	c, link := t.linked()
	for range lostReplies {
		t.usable(c)
		key := t.newKey()
		g := t.acquire(t.a, key, t.long())
		w := t.wait(c, key, t.long())
		t.confirmQueued(key, 1)
		t.dropReplies(link, func() { t.release(g) }, func() bool { return t.inspect(key).Owner == w.owner })
		next := w.granted(t, recovery+t.g.MaxLate, "after a release whose news was lost with the waiter's connection")
		t.heldBy(next)
		t.release(next)
		t.free(t.b, key, "after the waiter's release")
	}
}

func lostRenewReplyKeepsLease(t *trial) {
	c, link := t.linked()
	for range lostReplies {
		t.usable(c)
		g := t.acquire(c, t.newKey(), t.long())
		deadline := g.Deadline()
		var renewal *call
		t.dropReplies(link, func() { renewal = t.call(func() error { return g.Renew(t.ctx, t.long()) }) }, t.sent(link))
		err := renewal.ends(t, recovery, "Renew whose answer was lost")
		if t.excused(g, err) {
			continue
		}
		t.heldAsBefore(g, deadline, err)
		if !t.poll(recovery, func() bool { err = g.Renew(t.ctx, t.long()); return err == nil || g.gone() }) {
			t.fatalf("Renew of a live lease, %v after the answer to another was lost: %v", recovery, err)
		}
		if t.excused(g, err) {
			continue
		}
		t.heldAsBefore(g, deadline, err)
		t.heldBy(g)
		t.release(g)
		t.free(t.b, g.key, "after release")
	}
}

// heldAsBefore fails unless g is held as before a renewal that ended with err.
func (t *trial) heldAsBefore(g *grant, deadline time.Time, err error) {
	switch {
	case errors.Is(err, backend.ErrLost):
		t.fatalf("Renew of a live lease after an answer was lost: %v", err)
	case g.gone() && t.g.EarlyLoss == "":
		t.fatalf("Lost is closed, %v before the deadline, after the answer to a renewal was lost", time.Until(deadline))
	case g.Deadline().Before(deadline):
		t.fatalf("a renewal whose answer was lost made the lease %v shorter", deadline.Sub(g.Deadline()))
	}
}

func lostReleaseReplyIsNoLoss(t *trial) {
	c, link := t.linked()
	for range lostReplies {
		t.usable(c)
		g := t.acquire(c, t.newKey(), t.long())
		var release *call
		reached := t.dropReplies(link, func() { release = t.call(func() error { return g.Release(t.ctx) }) },
			func() bool { return t.inspect(g.key).Owner != g.owner })
		err := release.ends(t, recovery, "Release whose answer was lost")
		if !reached && t.excused(g, err) { // the broken connection ended the lease first
			continue
		}
		if err == nil && g.gone() {
			t.fatalf("Lost is closed after a Release that succeeded")
		}
		again := g.Release(t.ctx)
		if errors.Is(err, backend.ErrLost) || errors.Is(again, backend.ErrLost) {
			t.fatalf("Release of a live lease whose answer was lost: %v; second Release: %v; the lease had not ended before",
				err, again)
		}
		t.becomesFree(t.b, g.key, recovery, "after a Release whose answer was lost")
	}
}

func lostRefusalChangesNothing(t *trial) {
	c, link := t.linked()
	for range lostReplies {
		t.usable(c)
		g := t.acquire(t.a, t.newKey(), t.long())
		r := backend.Request{Key: g.key, Owner: backend.NewOwner(), TTL: t.long()}
		var w *waiting
		t.dropReplies(link, func() { w = t.begin(t.ctx, c, r) }, t.sent(link))
		if !t.within(recovery, w.done) {
			t.fatalf("Acquire whose refusal was lost has not returned %v after the outage", recovery)
		}
		if w.err == nil {
			t.doubleGrant("Acquire of a held key whose refusal was lost was granted")
		}
		t.heldBy(g)
		t.release(g)
		t.becomesFree(t.b, g.key, recovery, "after the release of a key that was refused without an answer")
	}
}
