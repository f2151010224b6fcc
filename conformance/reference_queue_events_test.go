package conformance_test

import (
	"maps"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// breakQueue applies the bugs in which a Break of the holder of e disturbs a queue.
func (s *server) breakQueue(key string, e *entry) {
	n := len(e.queue)
	switch {
	case s.is("break turns the queue round"):
		slices.Reverse(e.queue)
	case s.is("break drops who waits second") && n > 1:
		e.queue = slices.Delete(e.queue, 1, 2)
	case s.is("break passes over who waits first") && n > 1:
		e.queue[0], e.queue[1] = e.queue[1], e.queue[0]
	case s.is("break drops who waits last for another key of the client"):
		s.elsewhere(key, e.client, func(queue []*place) []*place { return queue[:len(queue)-1] })
	}
}

// breakWaiter applies the bug in which a Break of a waiter's owner disturbs the queue.
func (s *server) breakWaiter(e *entry, owner string) {
	i := slices.IndexFunc(e.queue, func(p *place) bool { return p.Owner == owner })
	if i >= 0 && s.is("break of a waiter's owner puts the waiter last") {
		p := e.queue[i]
		e.queue = append(slices.Delete(e.queue, i, i+1), p)
	}
}

// lateFromBroken applies the bugs in which a late request of an owner without a lease disturbs the queue, after a
// Break.
func (s *server) lateFromBroken(e *entry, bug string) {
	n := len(e.queue)
	if n < 2 || !e.broken || !s.is(bug) {
		return
	}
	if s.is("late release of a broken lease turns the queue round") {
		slices.Reverse(e.queue)
	} else {
		e.queue = e.queue[:n-1]
	}
}

// rotated moves the first place to the end. Unlike a reversal, a second rotation of a long queue does not undo the
// first.
func rotated(queue []*place) []*place {
	if len(queue) == 0 {
		return queue
	}
	return append(queue[1:], queue[0])
}

// elsewhere changes the queue of another key: the first, by name, in which client and others wait.
func (s *server) elsewhere(key string, client *client, change func(queue []*place) []*place) {
	for _, other := range slices.Sorted(maps.Keys(s.keys)) {
		e := s.keys[other]
		if other != key && len(e.queue) > 1 && slices.ContainsFunc(e.queue,
			func(p *place) bool { return p.client == client }) {
			e.queue = change(e.queue)
			return
		}
	}
}

// gaveUpPlace applies the bugs in which the end of a wait disturbs other waiters.
func (s *server) gaveUpPlace(key string, e *entry, client *client) {
	const soon = 20 * time.Millisecond
	switch {
	case s.is("waiter that gives up sends the first of another queue to the end"):
		s.elsewhere(key, client, rotated)
	case s.is("waiter that gives up soon after a release sends the first to the end") && time.Since(e.released) < soon:
		e.queue = rotated(e.queue)
	}
}

// expiredQueue applies the bugs in which the expiry of a lease disturbs a queue.
func (s *server) expiredQueue(key string, e *entry) {
	unreached := e.waited && e.client != nil && e.client.wire != nil
	switch n := len(e.queue); {
	case unreached && n > 1 && s.is("turn that is not taken puts the next waiter last"):
		e.queue = append(e.queue[1:], e.queue[0])
	case unreached && n > 1 && s.is("turn that is not taken ends the next one too"):
		e.queue = e.queue[1:]
	case unreached && e.client.events.remote && s.is("turn that a frozen process does not take turns the queue round"):
		slices.Reverse(e.queue)
	case n == 0 && s.is("expiry with nobody waiting wakes the queue of another key"):
		s.elsewhere(key, e.client, func(queue []*place) []*place { return queue[1:] })
	}
}

// timedOut applies the bugs in which a wait that times out disturbs the waiters next to it.
func (c *client) timedOut(r backend.Request) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(s.name(r.Key))
	i := slices.IndexFunc(e.queue, func(p *place) bool { return p.Owner == r.Owner })
	switch {
	case r.Shared && i >= 0 && i+1 < len(e.queue) && s.is(timeoutTakesNext):
		e.queue = slices.Delete(e.queue, i+1, i+2)
	case i > 2 && s.is("wait that times out drops who came before"):
		e.queue = slices.Delete(e.queue, i-1, i)
	case i >= 0 && i+2 < len(e.queue) && s.is("wait that times out sends the waiter behind it to the end"):
		p := e.queue[i+1]
		e.queue = append(slices.Delete(e.queue, i+1, i+2), p)
	}
}
