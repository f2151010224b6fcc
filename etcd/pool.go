package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/anylock/lock/backend"
)

const (
	// readyPerTTL is how many leases are kept ready per TTL while that TTL is in use. With a ready lease, an acquire takes
	// one request.
	readyPerTTL = 1
	// mostIdle is the largest number of leases that are kept per TTL after a burst.
	mostIdle = 64
	// clockMargin is subtracted from the time for which a lease can be used without a renewal, because clocks differ in
	// speed.
	clockMargin = 50 * time.Millisecond
)

// A lease is an etcd lease. At any time it belongs to one lock, to one waiter, or to the pool. So a lock lives exactly
// as long as its TTL, whatever happens to other locks. And revoking the lease of a request without a reply undoes
// anything that the request has done or may yet do.
type lease struct {
	id      int64
	lockTTL time.Duration // the TTL of the locks that may use the lease
	ttl     time.Duration // as granted by the server: longer than lockTTL

	// term is the Raft term of the leader that granted the lease, 0 if unknown. A leader that continues after a pause
	// believes for a moment that it still leads. It may then revoke leases that it knows, although its successor has
	// renewed them. So a lock does not rely on renewals by a later leader: it moves to a lease that the old leader does
	// not know.
	//
	// The reply to a grant may contain the term of a later leader than the one that granted the lease. So term is the
	// highest term known before the request, if that is lower: at worst, a lock moves needlessly. A client's first grants
	// have only the terms in their replies. The reply to a renewal contains the term from just before the renewal, so a
	// later leader may have renewed. So renew compares term with the highest term of any reply.
	term uint64

	// Guarded by pool.mu.
	stale     bool      // renewed by a later leader than the leader that granted it
	renewed   time.Time // just before the request that granted or last renewed it
	renewedAt int64     // the server's revision just before the last renewal; 0 without one
	ended     bool      // the lease does not exist, or is about to be revoked; no lock relies on it
}

// covers reports whether the lease outlives a lock whose request was sent at sent.
func (l lease) covers(sent time.Time) bool {
	return !l.ended && !sent.Add(l.lockTTL).After(l.renewed.Add(l.ttl-clockMargin))
}

// A pool keeps granted leases that are not in use, by the TTL of the locks that may use them. It does not renew them: a
// lease that was idle for half its TTL is not used again.
type pool struct {
	b *Backend

	mu        sync.Mutex
	term      uint64                     // the highest in any reply
	idle      map[time.Duration][]*lease // the most recently used last
	preparing map[time.Duration]bool     // a grant is in progress in the background
	closed    bool
	discarded backlog[*lease] // to be revoked
}

func newPool(b *Backend) *pool {
	p := &pool{b: b, idle: make(map[time.Duration][]*lease), preparing: make(map[time.Duration]bool)}
	p.discarded = backlog[*lease]{leases: b.leases, process: p.revokeDiscarded}
	return p
}

// checkOut returns a lease for a lock with a TTL of lockTTL, either from the pool or newly granted. If the pool runs
// low, it grants the next lease in the background.
func (p *pool) checkOut(ctx context.Context, lockTTL time.Duration) (*lease, error) {
	p.mu.Lock()
	l := p.checkOutIdleLocked(lockTTL)
	if len(p.idle[lockTTL]) < readyPerTTL && !p.preparing[lockTTL] && !p.closed {
		p.preparing[lockTTL] = p.b.leases.Go(func(ctx context.Context) { p.prepare(ctx, lockTTL) })
	}
	p.mu.Unlock()
	if l != nil {
		return l, nil
	}
	return p.grant(ctx, lockTTL)
}

func (p *pool) checkOutIdleLocked(lockTTL time.Duration) *lease {
	now := time.Now()
	for n := len(p.idle[lockTTL]); n > 0; n-- {
		l := p.idle[lockTTL][n-1]
		p.idle[lockTTL] = p.idle[lockTTL][:n-1]
		if p.usableLocked(l, now) {
			return l
		}
		p.discardLocked(l)
	}
	return nil
}

// usableLocked reports whether a lock may use l, after a renewal if necessary. Through a proxy, leases cannot be
// renewed.
func (p *pool) usableLocked(l *lease, now time.Time) bool {
	return !l.ended && !l.stale && now.Before(l.renewed.Add(l.ttl/2)) && (!p.b.proxied.Load() || l.covers(now))
}

// prepare grants a lease in advance and adds it to the pool.
func (p *pool) prepare(ctx context.Context, lockTTL time.Duration) {
	l, err := p.grant(ctx, lockTTL)
	p.mu.Lock()
	p.preparing[lockTTL] = false
	p.mu.Unlock()
	if err == nil {
		p.checkIn(l)
	}
}

// checkIn returns a lease to the pool. No key may be bound to the lease, and no request under way may bind one.
func (p *pool) checkIn(l *lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case l == nil:
	case p.closed || len(p.idle[l.lockTTL]) >= mostIdle || !p.usableLocked(l, time.Now()):
		p.discardLocked(l)
	default:
		p.idle[l.lockTTL] = append(p.idle[l.lockTTL], l)
	}
}

// close revokes every idle lease. A lease that is checked in later is revoked, too.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, list := range p.idle {
		for _, l := range list {
			p.discardLocked(l)
		}
	}
	clear(p.idle)
}

// revokeLater revokes leases in the background. The revocation deletes their keys, and requests that would bind a key
// to them fail.
func (p *pool) revokeLater(leases ...*lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range leases {
		p.discardLocked(l)
	}
}

func (p *pool) discardLocked(l *lease) {
	if l != nil && !l.ended {
		l.ended = true
		p.discarded.add(l)
	}
}

// revokeDiscarded revokes leases one after the other. After a change of leader there are thousands, and other requests
// must not wait for them. If the servers do not respond, all leases of the list are left to expire; otherwise the
// backlog would grow during an outage.
func (p *pool) revokeDiscarded(list []*lease) {
	for _, l := range list {
		if errors.Is(p.b.revoke(p.b.leases.Base(), l.id), backend.ErrUnavailable) {
			return
		}
	}
}

// grant requests a lease for locks with a TTL of lockTTL.
func (p *pool) grant(ctx context.Context, lockTTL time.Duration) (*lease, error) {
	l, err := p.request(ctx, lockTTL+extraTTL)
	if err != nil {
		return nil, err
	}
	if l.ttl > lockTTL+extraTTL {
		p.revokeLater(l)
		return nil, fmt.Errorf("%w: ttl %v: the server grants at least %v", backend.ErrUnsupported, lockTTL, l.ttl)
	}
	l.lockTTL = lockTTL
	return l, nil
}

// request requests a lease. The server may grant a longer TTL. Each attempt has its own id. With a common id, a delayed
// attempt could grant a revoked lease again, and a delayed transaction could then bind a key to that lease.
func (p *pool) request(ctx context.Context, ttl time.Duration) (*lease, error) {
	var l *lease
	var unconfirmed []*lease
	_, err := p.b.repeat(ctx, func(ctx context.Context) error {
		l = &lease{id: newLeaseID(), ttl: ttl, renewed: time.Now()}
		before := p.noteTerm(0)
		resp, err := p.b.leaseClient.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: l.id, TTL: int64(ttl / time.Second)})
		switch {
		case err == nil:
			term := resp.Header.GetRaftTerm()
			l.ttl, l.term = time.Duration(resp.TTL)*time.Second, cmp.Or(min(before, term), term)
			p.noteTerm(term)
		case mayHaveRun(err):
			unconfirmed = append(unconfirmed, l)
		}
		return err
	})
	p.revokeLater(unconfirmed...)
	return l, err
}

// noteTerm records the term of a reply, and returns the highest so far.
func (p *pool) noteTerm(term uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.term = max(p.term, term)
	return p.term
}

// newLeaseID returns a random id. It is never 0, because a server would replace 0 by an id of its own.
func newLeaseID() int64 { return 1 + rand.Int64N(math.MaxInt64) }

// revoke ends a lease, and so deletes every key that is bound to it. nil means that the lease no longer exists: from
// then on, a request that would bind a key to it fails.
func (b *Backend) revoke(ctx context.Context, id int64) error {
	_, err := b.repeat(ctx, func(ctx context.Context) error {
		_, err := b.leaseClient.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: id})
		if isLeaseNotFound(err) {
			return nil
		}
		return err
	})
	return err
}

// state returns a copy of l as it is now.
func (p *pool) state(l *lease) lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *l
}

// refresh renews one lease. ErrLost means that the lease has ended.
func (p *pool) refresh(ctx context.Context, l *lease) error {
	e := &extension{from: l, err: errNoAnswer}
	p.b.renewAll(ctx, []*extension{e})
	return e.err
}

// patience is how long one attempt to renew l may take.
func (p *pool) patience(l *lease) time.Duration {
	return min(p.b.options.Timeout/attemptsPerTimeout, max(l.ttl/12, leastLimit))
}

// renew renews leases once. ErrLost means that the lease has ended, on the server or for this client, or that it cannot
// be renewed (errThroughProxy).
func (p *pool) renew(ctx context.Context, patience time.Duration, leases ...*lease) []error {
	ids, errs := make([]int64, len(leases)), make([]error, len(leases))
	for i, l := range leases {
		ids[i] = l.id
	}
	sent := time.Now()
	replies := p.b.renewer.renew(ctx, patience, ids...)
	answered := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range replies { // first, because a later leader may have made any of these renewals
		p.term = max(p.term, r.reply.GetHeader().GetRaftTerm())
	}
	for i, l := range leases {
		r := replies[i].reply
		switch {
		case replies[i].err != nil:
			errs[i] = replies[i].err
		case r.TTL <= 0, l.ended: // a lease that has ended may be about to be revoked
			l.ended = true
			errs[i] = backend.ErrLost
		case !answered.Before(l.renewed.Add(l.ttl)):
			// The lease may have expired before the reply: old servers confirm renewals of leases that they are ending.
			p.discardLocked(l)
			errs[i] = backend.ErrLost
		case time.Duration(r.TTL)*time.Second >= l.ttl && sent.After(l.renewed):
			l.renewed, l.renewedAt = sent, r.GetHeader().GetRevision()
			l.stale = l.stale || p.term != l.term
		}
	}
	return errs
}
