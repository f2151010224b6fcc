package conformance_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/conformance"
)

// A contact records what a client with a bug knows about its wire.
type contact struct {
	cuts    atomic.Int64  // number of times that the connection broke
	silent  atomic.Bool   // the path was silent for 2 seconds at least once
	expired atomic.Bool   // the session has ended
	gaveUp  chan struct{} // closed when waiters give up
	late    atomic.Bool   // a request has reached the server through a stranded connection
	batched sync.Map      // owners whose leases were in a batch
	asked   sync.Map      // owners that queue again, because their connection broke
}

// outOfContact reports whether the wire is closed, silent, or connected.
func (w *wire) outOfContact() (closed, silent bool, connected bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refuse || w.conn == nil, w.hold != [2]bool{} || w.drop != [2]bool{}, w.conn != nil && !w.refuse
}

// watchContact applies the bugs that depend on how long a client has been out of contact. It ends with the wire.
func (s *server) watchContact(c *client) {
	c.contact.gaveUp = make(chan struct{})
	earlier := c.wire.broke
	c.wire.broke = func() {
		c.contact.cuts.Add(1)
		if earlier != nil {
			earlier()
		}
	}
	if !s.is("lease ends 3 seconds after its connection was closed", "lease ends 3 seconds after its client fell silent",
		"holder gives up after 3 seconds without contact", "reconnect after 3 seconds begins a new session",
		"waiter gives up after 2 seconds of silence", readerTires, "waiter that is silent for 2 seconds is forgotten",
		endsUnconnected, endsSilent,
		"waiter behind a path that was silent for 2 seconds hears nothing more") {
		return
	}
	go func() {
		const every = 20 * time.Millisecond
		var closedFor, silentFor time.Duration
		wasConnected := false
		for ; !c.wire.isDead(); time.Sleep(every) {
			closed, silent, connected := c.wire.outOfContact()
			wasConnected = wasConnected || connected
			closedFor, silentFor = prolong(closedFor, closed && wasConnected, every), prolong(silentFor, silent, every)
			s.outOfContact(c, closedFor, silentFor)
		}
	}()
}

func prolong(d time.Duration, lasts bool, by time.Duration) time.Duration {
	if !lasts {
		return 0
	}
	return d + by
}

// outOfContact applies the bugs of a client whose wire has been closed, and silent, for the given times.
func (s *server) outOfContact(c *client, closed, silent time.Duration) {
	const ends, forgets = 3 * time.Second, 2 * time.Second
	switch {
	case closed >= ends && s.is("lease ends 3 seconds after its connection was closed"),
		closed >= 10*ends && s.is(endsUnconnected), silent >= time.Minute && s.is(endsSilent),
		silent >= ends && s.is("lease ends 3 seconds after its client fell silent"):
		s.dropOf(c)
	case closed >= ends && s.is("reconnect after 3 seconds begins a new session"):
		c.contact.expired.Store(true)
	case max(closed, silent) >= ends && s.is("holder gives up after 3 seconds without contact"):
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, l := range c.lives {
			l.Lose()
		}
	case silent >= forgets && c.contact.silent.CompareAndSwap(false, true):
		if s.is("waiter gives up after 2 seconds of silence", readerTires) {
			close(c.contact.gaveUp)
		}
		if s.is("waiter that is silent for 2 seconds is forgotten") {
			s.forgetWaiters(c)
		}
	}
}

func (s *server) forgetWaiters(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.keys {
		e.queue = slices.DeleteFunc(e.queue, func(p *place) bool { return p.client == c })
	}
}

// wasCut reports whether the client's connection has ever broken.
func (c *client) wasCut() bool { return c != nil && c.contact.cuts.Load() > 0 }

// isSilent reports whether nothing passes the client's wire.
func (c *client) isSilent() bool {
	if c == nil || c.wire == nil {
		return false
	}
	_, silent, _ := c.wire.outOfContact()
	return silent
}

// begins ends the client's leases if its session has ended.
func (c *client) begins() {
	if c.contact.expired.CompareAndSwap(true, false) {
		c.server.dropOf(c)
	}
}

// newsIsLate delays the notification of a waiter's turn, as a bug. never reports whether the notification must not
// arrive.
func (c *client) newsIsLate(p *place) (never bool) {
	_, again := c.contact.asked.Load(p.Owner)
	c.newsNarrowlyLate(p)
	switch {
	case !c.wasCut():
	case c.is("client that was cut is woken by a timer"),
		c.is("waiter that queues again after a cut is woken by a timer") && again,
		c.is("waiter that comes after a cut is woken by a timer") && !again:
		time.Sleep(rand.N(time.Second)) // sleeps: until the timer fires
	}
	return c.contact.silent.Load() && c.is("waiter behind a path that was silent for 2 seconds hears nothing more")
}

// queuesAgain records that the connection of a waiter broke.
func (c *client) queuesAgain(r backend.Request) { c.contact.asked.Store(r.Owner, true) }

// errSilent is the error of a waiter that gives up.
var errSilent = fmt.Errorf("%w: no heartbeat", backend.ErrUnavailable)

// enqueueAgain applies the bugs of a waiter that queues again after its connection broke. It reports whether it has
// queued p.
func (s *server) enqueueAgain(e *entry, p *place) bool {
	if _, again := p.client.contact.asked.Load(p.Owner); !again {
		return false
	}
	if !p.Shared {
		s.shuts(e, shutCut)
	}
	switch {
	case s.is("waiter that queues again after a cut is first"):
		e.queue = slices.Insert(e.queue, 0, p)
		return true
	case s.is("waiter that queues again after a cut turns the queue round"):
		slices.Reverse(e.queue)
	}
	return false
}

// takesAlong removes all places of p's client from the queue, as a bug, when p leaves it. It reports whether it did.
func (s *server) takesAlong(e *entry, p *place) bool {
	if !p.client.wasCut() || !s.is("cancelled waiter takes its client's other places along after a cut") {
		return false
	}
	e.queue = slices.DeleteFunc(e.queue, func(other *place) bool { return other.client == p.client })
	return true
}

// revives restores an expired lease for the owner of a late renewal, as a bug.
func (s *server) revives(e *entry, owner string, c *client) {
	_, batch := c.contact.batched.Load(owner)
	if e.owner == "" && e.expired && e.last == owner &&
		(s.is("renewal revives its own expired lease") || c.contact.late.Load() &&
			s.is("renewal by a dead connection revives its own expired lease") || batch &&
			s.is("batch revives its own expired lease")) {
		e.owner, e.client = owner, c
	}
}

// meansOther reports whether a late request of an owner that has lost its lease applies to the present holder, as a
// bug.
func (s *server) meansOther(e *entry, owner, request string) bool {
	c := e.lastOf
	if c == nil || e.owner == "" || e.last != owner {
		return false
	}
	_, batch := c.contact.batched.Load(owner)
	if request == "release ends" && c.contact.late.Load() &&
		s.is("release by a dead connection ends the next holder's lease") {
		return true
	}
	return e.client == c && s.is("late "+request+" another lease of its client") || batch &&
		s.is("late "+request+" in a batch is for any owner")
}

// abandonsBriefly cleans up for at most 3 seconds, as a bug. It reports whether it does.
func (c *client) abandonsBriefly(r backend.Request, of string) bool {
	if !c.is("clean-up of " + of + " gives up after 3 seconds") {
		return false
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			if c.do(ctx, func() {}) == nil {
				c.abandon(r)
				return
			}
		}
	}()
	return true
}

// notifyThrough returns a function that notifies a client behind a wire of a removal, once the client is connected.
func (s *server) notifyThrough(c *client, e *entry) func() {
	owner, cutBefore := e.owner, e.cuts
	return func() {
		go func() {
			_, _, connected := c.wire.outOfContact()
			switch {
			case c.wasCut() && s.is("removal after a cut is reported by a renewal alone"),
				!connected && s.is("removal while disconnected is reported by a renewal alone"),
				cutBefore > 0 && s.is("removal of a lease that was granted after a cut is reported by a renewal alone"):
				return
			}
			c.mu.Lock()
			var life *kit.Life
			for _, l := range c.lives {
				if l.Owner() == owner {
					life = l
				}
			}
			c.mu.Unlock()
			if life != nil && s.losesNarrowly(c, life.Key(), owner, life.Shared(), connected) {
				return
			}
			for ; !c.wire.isDead(); time.Sleep(10 * time.Millisecond) {
				if conn, err := c.wire.dial(); err == nil && c.wire.pass(conn, conformance.FromStore, replyLen) {
					c.hearsOfRemoval(owner)
					return
				}
			}
		}()
	}
}

func (c *client) hearsOfRemoval(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hearsNarrowly(owner)
	if c.wasCut() && c.is("OnLost is not called for a removal after a cut") {
		c.pushed.Store(owner, true)
	}
	for _, l := range c.lives {
		if l.Owner() == owner || c.wasCut() && c.is("removal after a cut is reported to every holder of its client") {
			l.Lose()
		}
	}
}

// keepsLives reports whether clients keep a list of their leases, which some bugs and the notifications of removals
// need.
func (s *server) keepsLives() bool {
	return s.notifies() ||
		s.is("loss of a reader is that of its client's others",
			"renewal that finds a reader lost ends the others of its client") ||
		s.is("Release ends every lease of the client", "holder gives up after 3 seconds without contact")
}
