package conformance

import (
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/anylock/lock/backend"
)

// A leaseRecord is one lease as seen by its holder and the suite.
type leaseRecord struct {
	worker     int
	client     int // as in attemptRecord
	key, owner string
	shared     bool
	token      uint64
	asked      instant       // before Acquire was called
	granted    instant       // after it returned
	ttl        time.Duration // as requested
	deadline   instant       // the last deadline that the holder knew
	renewals   []renewalRecord

	lostAt instant // when Lost closed, if that was before the deadline; else 0

	end endOfLease
	// before and after the call of Release; both are the time of the kill if the holder was killed
	releaseCalled, releaseReturned instant
}

type renewalRecord struct {
	called, answered instant
	ttl              time.Duration
	ok               bool // if false, the renewal may or may not have reached the store
}

// endOfLease is how a lease ended, as far as the suite knows.
type endOfLease string

const (
	endAbandoned endOfLease = "expired"         // the holder did nothing
	endReleased  endOfLease = "released"        // Release returned nil
	endUnsure    endOfLease = "ended"           // Release failed, perhaps with ErrLost, but may have ended the lease
	endKilled    endOfLease = "killed"          // the holder's process was killed
	endLost      endOfLease = "lost"            // the store notified the holder early
	endDropped   endOfLease = "lost or dropped" // a restart of the store may have ended it
)

// An attemptRecord is an Acquire that returned no lease.
type attemptRecord struct {
	worker     int
	client     int // the client that made the request, numbered as in faultRecord
	key, owner string
	shared     bool
	ttl        time.Duration
	wait       bool
	called     instant
	returned   instant
	refused    bool // ErrHeld; if false, the outcome is unknown: the store may grant a lease, now or later
}

// A faultRecord is one period with a fault.
type faultRecord struct {
	client   int // the affected client, or wholeStore
	what     string
	from, to instant
	outage   bool // the store was not running
	// The store may have lost leases, as its Guarantees say. If leases end with their connection, only the client's are
	// lost.
	forgets bool
}

// wholeStore stands for every client.
const wholeStore = -1

// A record is everything that was observed about some keys.
type record struct {
	leases   []*leaseRecord
	attempts []attemptRecord
	faults   []faultRecord
}

// operations returns the steps that the store must have made, each with its interval. The model searches for their
// order.
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
		if l.end == endReleased && how != endReleased { // the lease had already ended: no order explains this release
			step(stepEnd, l.end, l.releaseCalled, l.releaseReturned)
		}
		step(stepEnd, how, earliest, latest)
	}
	for _, a := range r.attempts {
		if a.refused && r.provesHeld(a, g) {
			ops = append(ops, operation(a.worker, leaseOp{step: stepRefuse, key: a.key, owner: a.owner, shared: a.shared},
				a.called, a.returned))
		}
	}
	return ops
}

func operation(worker int, op leaseOp, from, to instant) porcupine.Operation {
	return porcupine.Operation{ClientId: worker, Input: op, Call: int64(from), Return: int64(to)}
}

// ends returns the earliest and the latest time at which the store may have ended the lease, and how the lease ended.
func (r *record) ends(l *leaseRecord, g backend.Guarantees) (how endOfLease, earliest, latest instant) {
	kept := r.kept(l, g)
	if l.end == endReleased && l.releaseCalled <= kept {
		return endReleased, l.releaseCalled, l.releaseReturned
	}
	how, earliest = endAbandoned, min(l.deadline, kept)
	sooner := func(e endOfLease, at instant) {
		if at < earliest {
			how, earliest = e, at
		}
	}
	if l.end == endUnsure || l.end == endKilled {
		sooner(l.end, l.releaseCalled)
	}
	if l.lostAt > 0 {
		sooner(endLost, l.lostAt-soon) // the notification may have been delayed
	}
	for _, f := range r.faults {
		if f.forgets && f.to >= l.asked && (f.client == wholeStore || f.client == l.client) {
			sooner(endDropped, f.from)
		}
	}
	earliest = max(earliest, l.asked)
	return how, earliest, max(earliest, kept)
}

// kept returns the last instant at which the store may keep the lease if its holder makes no further requests.
func (r *record) kept(l *leaseRecord, g backend.Guarantees) instant {
	latest, longest := l.granted+keeps(g, l.ttl), l.ttl
	var stray time.Duration // how much longer, because of renewals without a reply, whenever they arrive
	for _, n := range l.renewals {
		switch {
		case n.called > latest: // the lease had already ended
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

// keeps returns how long the store may keep a lease of ttl that it has just granted: see trial.lastRefusal.
func keeps(g backend.Guarantees, ttl time.Duration) time.Duration {
	granted := g.Round(ttl)
	return granted + g.MaxLate + backend.Margin(granted)
}

// outlasting extends latest for each outage that began before it. After an outage the store may count a TTL from the
// start again, which takes again.
func (r *record) outlasting(latest instant, again time.Duration) instant {
	for _, f := range r.faults {
		if f.outage && f.from <= latest {
			latest = max(latest, f.to) + again
		}
	}
	return latest
}

// provesHeld reports whether the refused attempt proves that a lease existed. It proves nothing if somebody was
// waiting, because a store may reserve the key for the next waiter. It proves nothing if another attempt failed at the
// same time, because a store may refuse both. It proves nothing while an attempt of unknown outcome may have a lease.
func (r *record) provesHeld(a attemptRecord, g backend.Guarantees) bool {
	for _, o := range r.attempts {
		if o.owner == a.owner || o.key != a.key || o.called > a.returned {
			continue
		}
		if a.called <= r.blocksUntil(o, g) {
			return false
		}
	}
	return true
}

// blocksUntil returns until when the attempt may make the store refuse others.
func (r *record) blocksUntil(a attemptRecord, g backend.Guarantees) instant {
	if a.refused {
		return a.returned
	}
	until := a.returned
	for _, f := range r.faults {
		if f.client == a.client && f.from <= a.returned {
			until = max(until, f.to) // until then its requests may be in flight
		}
	}
	until += keeps(g, a.ttl) + soon
	if a.wait {
		until += g.MaxLate // first its place in the queue must expire, then its lease
	}
	return r.outlasting(until, keeps(g, a.ttl))
}

// freeBy returns the time by which the store must have freed key.
func (r *record) freeBy(key string, g backend.Guarantees) (at instant) {
	for _, l := range r.leases {
		if l.key == key {
			_, _, latest := r.ends(l, g)
			at = max(at, latest)
		}
	}
	for _, a := range r.attempts {
		if a.key == key {
			at = max(at, r.blocksUntil(a, g))
		}
	}
	return at
}
