package etcd

import "time"

// A lease is a lease of etcd's. At any time it belongs to one lock or one waiter, or to the pool. So a lock lives as long
// as its TTL says whatever happens to other locks, and revoking the lease of a request that was not answered ends whatever
// that request has done, or may yet do.
type lease struct {
	id    int64
	class time.Duration // the TTL of the locks it is for
	ttl   time.Duration // as the server has granted it: more than class

	// term is that of the leader that granted it, 0 if not known. When that leader is paused, it may on its return revoke
	// the leases that it knows and that its successor has renewed: it believes for a moment that it leads still. So a
	// lock counts on no renewal by a later leader: it changes to a lease that the old one does not know.
	//
	// An answer tells the term when it is sent, which may be a later leader's already. So what was heard before the request counts where
	// that is lower: at worst a change too many. The first grants of a client have their answers alone.
	term uint64

	// Guarded by pool.mu.
	isStale bool      // renewed by a later leader than the one that granted it
	heard   uint64    // the term of the leader that granted or last renewed it
	renewed time.Time // before the request was sent that granted or last renewed it
	dropped time.Time // when it was left to be revoked; zero if it is not
	isGone  bool
	gone    chan struct{} // closed when the server has said that it does not exist
}

// freshness is taken off the time for which a lease serves as it is, for clocks that run at different speeds.
const freshness = 50 * time.Millisecond

// aliveLocked reports whether l has a good while to live.
func (l *lease) aliveLocked(now time.Time) bool {
	return !l.isGone && !l.isStale && now.Before(l.renewed.Add(l.ttl/2))
}

// coversLocked reports whether a lock whose request is sent at sent ends by l's own end.
func (l *lease) coversLocked(sent time.Time) bool {
	return !sent.Add(l.class).After(l.renewed.Add(l.ttl - freshness))
}

func (l *lease) loseLocked() {
	if !l.isGone {
		l.isGone = true
		close(l.gone)
	}
}
