package conformance

import (
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/anylock/lock/backend"
)

// A leaseRecord is one lease as its holder and the suite know it.
type leaseRecord struct {
	worker     int
	client     int // as in attemptRecord
	key, owner string
	shared     bool
	token      uint64
	asked      instant       // before Acquire was called
	granted    instant       // after it returned
	ttl        time.Duration // as asked
	deadline   instant       // the last that the holder believed in
	renewals   []renewalRecord

	lostAt instant // when Lost closed, if that was before the deadline; else 0

	end          endOfLease
	ending, over instant // before and after Release was called; both when the holder was killed
}

type renewalRecord struct {
	called, answered instant
	ttl              time.Duration
	ok               bool // otherwise it may have reached the store, or not
}

// endOfLease is what the holder did in the end.
type endOfLease string

const (
	endLeft     endOfLease = "expired"         // nothing
	endReleased endOfLease = "released"        // Release was nil
	endUnsure   endOfLease = "ended"           // Release was an error, ErrLost too: it may have been what ended it
	endKilled   endOfLease = "killed"          // its process was killed
	endLost     endOfLease = "lost"            // the store notified its holder early
	endDropped  endOfLease = "lost or dropped" // a restart of the store may have ended it
)

// An attemptRecord is an Acquire that gave no lease.
type attemptRecord struct {
	worker     int
	client     int // that made the request, numbered as in faultRecord
	key, owner string
	shared     bool
	ttl        time.Duration
	wait       bool
	called     instant
	returned   instant
	refused    bool // ErrHeld; otherwise the outcome is unknown: it may have got a lease, or get one later
}

// A faultRecord is a time of trouble.
type faultRecord struct {
	client   int // which client has it; wholeStore for all
	what     string
	from, to instant
	outage   bool // the store did not run
	// and may have lost leases, which its Guarantees say; of the client alone, where leases end with their connection
	forgets bool
}

// wholeStore stands for every client.
const wholeStore = -1

// A record is all that was seen of some keys.
type record struct {
	leases   []*leaseRecord
	attempts []attemptRecord
	faults   []faultRecord
}

// operations returns what the store must have done, and when. A model finds the order.
func (r *record) operations(g backend.Guarantees) (ops []porcupine.Operation) {
	for _, l := range r.leases {
		step := func(s leaseStep, how endOfLease, from, to instant) {
			op := leaseOp{step: s, key: l.key, owner: l.owner, shared: l.shared, token: l.token, how: string(how)}
			ops = append(ops, operation(l.worker, op, from, to))
		}
		step(stepGrant, "", l.asked, l.granted)
		for _, n := range l.renewals {
			if n.ok {
				step(stepRenew, "", n.called, n.answered)
			}
		}
		how, earliest, latest := r.ends(l, g)
		if l.end == endReleased && how != endReleased { // too late: there was nothing to release any more
			step(stepEnd, l.end, l.ending, l.over)
		}
		step(stepEnd, how, earliest, latest)
	}
	for _, a := range r.attempts {
		if a.refused && r.judged(a, g) {
			ops = append(ops, operation(a.worker, leaseOp{step: stepRefuse, key: a.key, owner: a.owner, shared: a.shared},
				a.called, a.returned))
		}
	}
	return ops
}

func operation(worker int, op leaseOp, from, to instant) porcupine.Operation {
	return porcupine.Operation{ClientId: worker, Input: op, Call: int64(from), Return: int64(to)}
}

// ends returns the earliest time at which the store may have ended the lease, and the latest.
func (r *record) ends(l *leaseRecord, g backend.Guarantees) (how endOfLease, earliest, latest instant) {
	kept := r.kept(l, g)
	if l.end == endReleased && l.ending <= kept {
		return endReleased, l.ending, l.over
	}
	how, earliest = endLeft, min(l.deadline, kept)
	sooner := func(e endOfLease, at instant) {
		if at < earliest {
			how, earliest = e, at
		}
	}
	if l.end == endUnsure || l.end == endKilled {
		sooner(l.end, l.ending)
	}
	if l.lostAt > 0 {
		sooner(endLost, l.lostAt-soon) // the message may have been on its way
	}
	for _, f := range r.faults {
		if f.forgets && f.to >= l.asked && (f.client == wholeStore || f.client == l.client) {
			sooner(endDropped, f.from)
		}
	}
	earliest = max(earliest, l.asked)
	return how, earliest, max(earliest, kept)
}

// kept is the last instant at which the store may keep the lease if its holder does nothing more for it.
func (r *record) kept(l *leaseRecord, g backend.Guarantees) instant {
	latest, longest := l.granted+keeps(g, l.ttl), l.ttl
	var stray time.Duration // what renewals may add whose answer is unknown, whenever they arrive
	for _, n := range l.renewals {
		switch {
		case n.called > latest: // nothing was left to renew
			continue
		case n.ok:
			latest = n.answered + keeps(g, n.ttl) + stray
		default:
			stray += keeps(g, n.ttl)
			latest += keeps(g, n.ttl)
		}
		longest = max(longest, n.ttl)
	}
	return r.outlasting(latest, keeps(g, longest))
}

// keeps is how long the store may keep a lease of ttl that it has just granted: see trial.lastRefusal.
func keeps(g backend.Guarantees, ttl time.Duration) time.Duration {
	granted := g.Round(ttl)
	return granted + g.MaxLate + backend.Margin(granted)
}

// outlasting is latest for a store that may have been out of service before: it may count a TTL anew when it is back.
func (r *record) outlasting(latest instant, again time.Duration) instant {
	for _, f := range r.faults {
		if f.outage && f.from <= latest {
			latest = max(latest, f.to) + again
		}
	}
	return latest
}

// judged reports whether the refused attempt proves that a lease was there. It does not if somebody waited: a store may
// keep the key for the next in its queue. Nor if another attempt failed at the same time, for a store may let both
// fail; nor while one of unknown outcome may have a lease.
func (r *record) judged(a attemptRecord, g backend.Guarantees) bool {
	for _, o := range r.attempts {
		if o.owner == a.owner || o.key != a.key || o.called > a.returned {
			continue
		}
		if a.called <= r.matters(o, g) {
			return false
		}
	}
	return true
}

// matters is until when the attempt may keep others out.
func (r *record) matters(a attemptRecord, g backend.Guarantees) instant {
	if a.refused {
		return a.returned
	}
	until := a.returned
	for _, f := range r.faults {
		if f.client == a.client && f.from <= a.returned {
			until = max(until, f.to) // what it has sent may be on its way until then
		}
	}
	until += keeps(g, a.ttl) + soon
	if a.wait {
		until += g.MaxLate // its place in the queue, then its lease
	}
	return r.outlasting(until, keeps(g, a.ttl))
}

// freeBy is when everything that is left over must be gone at the latest.
func (r *record) freeBy(key string, g backend.Guarantees) (at instant) {
	for _, l := range r.leases {
		if l.key == key {
			_, _, latest := r.ends(l, g)
			at = max(at, latest)
		}
	}
	for _, a := range r.attempts {
		if a.key == key {
			at = max(at, r.matters(a, g))
		}
	}
	return at
}
