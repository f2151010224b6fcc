package conformance_test

import (
	"slices"

	"github.com/anylock/lock/backend"
)

// clockQueueMutants are bugs of queues that depend on the wall clocks of clients.
var clockQueueMutants = []mutant{
	{"queue is in the order of the waiters' wall clocks", "WrongClockKeepsQueue"},
	{"attempt by a client whose clock is ahead removes who waits", "WrongClockKeepsQueue"},
}

// enqueueByClock puts p at its place in the order of the clients' clocks, as a bug. It reports whether it did.
func (s *server) enqueueByClock(e *entry, p *place) (done bool) {
	if !s.is("queue is in the order of the waiters' wall clocks") {
		return false
	}
	e.queue = append(e.queue, p)
	slices.SortStableFunc(e.queue, func(x, y *place) int {
		return x.since.Add(x.client.skew).Compare(y.since.Add(y.client.skew))
	})
	return true
}

// removesByClock removes all places, as a bug, because they are old by the clock of c.
func (s *server) removesByClock(e *entry, c *client, r backend.Request) {
	if c.skew > 0 && !r.Wait && s.is("attempt by a client whose clock is ahead removes who waits") {
		e.queue = nil
	}
}
