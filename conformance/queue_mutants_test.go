package conformance_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// queueMutants are bugs that appear with large numbers: long queues, large batches, many requests in flight.
var queueMutants = []mutant{
	{"batch skips lease 100", "LargeBatchRenewsEach"},
	{"batch ends at 200", "LargeBatchRenewsEach"},
	{"batch loses the last of each 64", "LargeBatchRenewsEach"},
	{"batch ends at 500", "LargeBatchRenewsEach"},
	{"batch of more than 1000 is not sent", "LargeBatchRenewsEach"},
	{"batch of more than 100 is for the last TTL", "LargeBatchRenewsEach"},
	{"batch of more than 100 swaps two answers", "LargeBatchRenewsEach"},

	{"renewal does nothing once 10 wait", "LongQueueIsServed"},
	{"renewal does nothing once 30 wait", "LongQueueIsServed"},
	{"renewal turns a queue of more than 8 by one", "LongQueueIsServed"},
	{"renewal drops who came last of more than 12", "LongQueueIsServed"},
	{"queue of more than 8 is in no order", "LongQueueIsServed"},
	{"who comes behind 30 waiters is first", "LongQueueIsServed"},
	{"queue is by TTL", "LongQueueIsServed"},
	{"waiter number 18 is parked", "LongQueueIsServed"},
	{"waiter number 50 is parked", "LongQueueIsServed"},
	{"turn lasts for the TTL of the holder before", "LongQueueIsServed"},
	{"who leaves a long queue takes the next along", "LongQueueIsServed"},
	{"batch does nothing once 10 wait", "LongQueueIsServed"},
	{"batch turns a queue of more than 8 by one", "LongQueueIsServed"},
	{"batch drops who came last of more than 12", "LongQueueIsServed"},

	{"acquire checks, then sets, above 48 in flight", "ManyInFlight"},
	{"release above 48 in flight is missed", "ManyInFlight"},
	{"renewal above 48 in flight does nothing", "ManyInFlight"},
	{"grant above 48 in flight is of the TTL of the one before", "ManyInFlight"},
	{"acquire checks, then sets, above 150 in flight", "ManyInFlight"},
	{"renewal above 150 in flight does nothing", "ManyInFlight"},
}

// busy reports whether the server has the bug, and more requests in flight than the number in the bug's name. bug
// contains %d for the number.
func (s *server) busy(bug string) bool {
	return strings.Contains(s.bug, " in flight") && slices.ContainsFunc([]int64{48, 150},
		func(n int64) bool { return s.is(fmt.Sprintf(bug, n)) && s.inFlight.Load() > n })
}

// latency returns the longest delay of a request. It is longer for bugs that need many requests in flight.
func (s *server) latency() time.Duration {
	if strings.Contains(s.bug, "above 150 in flight") {
		return 20 * time.Millisecond
	}
	return 50 * time.Microsecond
}

// renewInCrowd applies the bugs of a renewal while others wait. It reports whether the renewal does nothing else.
func (s *server) renewInCrowd(e *entry) (done bool) {
	n := len(e.queue)
	switch {
	case s.is("renewal turns a queue of more than 8 by one") && n > 8:
		e.queue = append(e.queue[1:], e.queue[0])
	case s.is("renewal drops who came last of more than 12") && n > 12:
		e.queue = e.queue[:n-1]
	}
	return s.is("renewal does nothing once 10 wait") && n >= 10 || s.is("renewal does nothing once 30 wait") && n >= 30 ||
		s.busy("renewal above %d in flight does nothing")
}

// renewOfBatch applies the bugs of one renewal in a batch: while others wait, or for an owner that looks like the
// holder. It reports whether the renewal does nothing else.
func (s *server) renewOfBatch(key, owner string) (done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(s.name(key))
	n := len(e.queue)
	switch {
	case s.is("batch turns a queue of more than 8 by one") && n > 8:
		e.queue = append(e.queue[1:], e.queue[0])
	case s.is("batch drops who came last of more than 12") && n > 12:
		e.queue = e.queue[:n-1]
	}
	return s.is("batch does nothing once 10 wait") && n >= 10 || e.owner != owner && s.isOf(e.owner, owner, "batch")
}

// enqueueInCrowd puts p at a wrong place in the queue, or parks it, as a bug. It reports whether it did.
func (s *server) enqueueInCrowd(e *entry, p *place) (done bool) {
	n := len(e.queue)
	switch {
	case s.is("queue of more than 8 is in no order") && n >= 8:
		e.queue = slices.Insert(e.queue, rand.N(n), p)
	case s.is("queue is by TTL"):
		e.queue = append(e.queue, p)
		slices.SortStableFunc(e.queue, func(x, y *place) int { return cmp.Compare(x.TTL, y.TTL) })
	case s.is("who comes behind 30 waiters is first") && n >= 30:
		e.queue = slices.Insert(e.queue, 0, p)
	case (s.is("waiter number 18 is parked") && n == 17 || s.is("waiter number 50 is parked") && n == 49) && !e.parked:
		e.parked = true
	default:
		return false
	}
	return true
}

// grantInCrowd returns the TTL of a grant that was requested for ttl.
func (s *server) grantInCrowd(e *entry, ttl time.Duration) time.Duration {
	before := e.ttl
	e.ttl = ttl
	if before > 0 && s.is("turn lasts for the TTL of the holder before") {
		return before
	}
	if s.busy("grant above %d in flight is of the TTL of the one before") {
		ttl = max(s.lastTTL, 10*time.Millisecond)
	}
	s.lastTTL = e.ttl
	return ttl
}

// straight returns renewals with each bent or odd lease replaced by its Life.
func straight(renewals []backend.Renewal) []backend.Renewal {
	renewals = slices.Clone(renewals)
	for i, r := range renewals {
		switch l := r.Lease.(type) {
		case *bent:
			renewals[i].Lease = l.Life
		case *oddLife:
			renewals[i].Lease = l.Life
		}
	}
	return renewals
}

// renewBatch calls renew for each lease of a batch. It applies the bugs of large batches.
func (c *client) renewBatch(ttls []time.Duration, renew func(i int, ttl time.Duration) (time.Duration, error)) (
	granted []time.Duration, errs []error,
) {
	n := len(ttls)
	for i, ttl := range ttls {
		switch {
		case c.is("batch skips lease 100") && i == 100, c.is("batch ends at 200") && i >= 200, c.is("batch ends at 500") &&
			i >= 500,
			c.is("batch loses the last of each 64") && i%64 == 63, c.is("batch of more than 1000 is not sent") && n > 1000:
			granted, errs = append(granted, ttl), append(errs, nil)
			continue
		case c.is("batch renews all for the first TTL"):
			ttl = ttls[0]
		case c.is("batch of more than 100 is for the last TTL") && n > 100:
			ttl = ttls[n-1]
		case c.is("batch's TTLs in milliseconds are int32"):
			_, err := renew(i, time.Duration(int32(ttl/time.Millisecond))*time.Millisecond)
			granted, errs = append(granted, ttl), append(errs, err)
			continue
		}
		g, err := renew(i, ttl)
		granted, errs = append(granted, g), append(errs, err)
	}
	return granted, errs
}

// answersOfBatch swaps two results of a large batch, as a bug.
func (c *client) answersOfBatch(errs []error) []error {
	if n := len(errs); c.is("batch of more than 100 swaps two answers") && n > 100 {
		for i := 100; i+1 < n; i += 2 {
			if (errs[i] == nil) != (errs[i+1] == nil) {
				errs[i], errs[i+1] = errs[i+1], errs[i]
				break
			}
		}
	}
	return errs
}

var _ backend.BatchRenewer = (*client)(nil)
