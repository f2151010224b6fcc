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
	"google.golang.org/grpc/codes"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	// ahead is how many leases are kept ready per TTL, while that TTL is in use: an acquire takes one, and is then one
	// request.
	ahead = 1
	// mostIdle bounds the leases kept per TTL after a burst.
	mostIdle = 64
)

// A pool keeps leases that are granted and not in use, by the TTL of the locks they are for. It does not renew them: one that nobody
// has used for half its time is not used again.
type pool struct {
	b *Backend

	mu       sync.Mutex
	term     uint64                     // the highest that an answer has told
	idle     map[time.Duration][]*lease // the freshest last
	granting map[time.Duration]int      // in the background
	closed   bool
	dropped  backlog[*lease] // to be revoked
}

func newPool(b *Backend) *pool {
	p := &pool{b: b, idle: make(map[time.Duration][]*lease), granting: make(map[time.Duration]int)}
	p.dropped = backlog[*lease]{calls: &b.calls, work: p.revokeDropped}
	return p
}

// take returns a lease for a lock of that TTL: a pooled one, or a new one, and sees to the next one's being there.
func (p *pool) take(ctx context.Context, class time.Duration) (*lease, error) {
	p.mu.Lock()
	l := p.takeIdleLocked(class)
	if len(p.idle[class])+p.granting[class] < ahead && !p.closed {
		p.granting[class]++
		if !p.b.calls.Background(func() { p.prepare(class) }) {
			p.granting[class]--
		}
	}
	p.mu.Unlock()
	if l != nil {
		return l, nil
	}
	return p.grant(ctx, class)
}

func (p *pool) takeIdleLocked(class time.Duration) *lease {
	now := time.Now()
	for n := len(p.idle[class]); n > 0; n-- {
		l := p.idle[class][n-1]
		p.idle[class] = p.idle[class][:n-1]
		if p.usableLocked(l, now) {
			return l
		}
		p.dropLocked(l)
	}
	return nil
}

// usableLocked reports whether l may serve a lock, with a renewal if need be.
func (p *pool) usableLocked(l *lease, now time.Time) bool {
	return l.aliveLocked(now) && (!p.b.proxied.Load() || l.coversLocked(now))
}

// prepare grants a lease for what comes next.
func (p *pool) prepare(class time.Duration) {
	l, err := p.grant(p.b.base, class)
	p.mu.Lock()
	p.granting[class]--
	p.mu.Unlock()
	if err == nil {
		p.put(l)
	}
}

// put gives back a lease to which no key is bound, nor can be by a request that is still on its way.
func (p *pool) put(l *lease) {
	if l == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case l.isGone:
	case p.closed || len(p.idle[l.class]) >= mostIdle || !p.usableLocked(l, time.Now()): // stale ones too
		p.dropLocked(l)
	default:
		p.idle[l.class] = append(p.idle[l.class], l)
	}
}

// close revokes what is in the pool, and lets nothing in any more.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, list := range p.idle {
		for _, l := range list {
			p.dropLocked(l)
		}
	}
	clear(p.idle)
}

// drop revokes a lease in the background, with all that hangs on it or may yet do so.
func (p *pool) drop(leases ...*lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range leases {
		if l != nil && !l.isGone {
			p.dropLocked(l)
		}
	}
}

func (p *pool) dropLocked(l *lease) {
	if l.dropped.IsZero() {
		l.dropped = time.Now()
		p.dropped.add(l)
	}
}

// revokeDropped revokes one lease after the other: after a change of leader there are thousands, and other requests must not wait for
// them. While the servers are away it leaves those to their TTL that have waited for long, or there would be more and more.
func (p *pool) revokeDropped(list []*lease) {
	var err error
	for _, l := range list {
		p.mu.Lock()
		left, waited := time.Until(l.renewed.Add(l.ttl)), time.Since(l.dropped)
		p.mu.Unlock()
		if err != nil && waited > p.b.options.Timeout {
			continue
		}
		ctx, cancel := context.WithTimeout(p.b.base, min(max(left, time.Second), p.b.options.Timeout))
		err = p.revoke(ctx, l) // its TTL ends it in any case
		cancel()
	}
}

// grant makes a lease for locks of a TTL.
func (p *pool) grant(ctx context.Context, class time.Duration) (*lease, error) {
	l, err := p.ask(ctx, class+spare)
	if err != nil {
		return nil, err
	}
	if l.ttl > class+spare {
		p.drop(l)
		return nil, fmt.Errorf("%w: ttl %v: the server grants %v at least", backend.ErrUnsupported, class, l.ttl)
	}
	l.class = class
	return l, nil
}

// ask makes a lease, for longer than asked for if the server wants that. Each attempt has an id of its own: one that arrives late, with
// what a frozen server goes on to do, would make again a lease that was revoked meanwhile, and a late transaction could bind its
// key to that.
func (p *pool) ask(ctx context.Context, ttl time.Duration) (*lease, error) {
	var l *lease
	var strays []*lease // that may be granted, without an answer
	_, err := p.b.repeat(ctx, func(ctx context.Context) error {
		l = &lease{id: newLeaseID(), ttl: ttl, gone: make(chan struct{}), renewed: time.Now()}
		before := p.hear(0)
		resp, err := p.b.leaseClient.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: l.id, TTL: int64(ttl / time.Second)})
		switch {
		case err == nil:
			l.ttl, l.heard = time.Duration(resp.TTL)*time.Second, resp.Header.GetRaftTerm()
			l.term = cmp.Or(min(before, l.heard), l.heard)
			p.hear(l.heard)
		case uncertain(err):
			strays = append(strays, l)
		}
		return err
	})
	p.drop(strays...)
	return l, err
}

// hear notes the term of an answer, and returns the highest that there was.
func (p *pool) hear(term uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.term = max(p.term, term)
	return p.term
}

// newLeaseID is not 0, for which a server would choose another.
func newLeaseID() int64 { return 1 + rand.Int64N(math.MaxInt64) }

// revoke ends a lease, and so every key that is bound to it. nil says that it is gone, whoever has ended it: a request
// that would bind a key to it fails from now on.
func (p *pool) revoke(ctx context.Context, l *lease) error {
	err := p.b.revoke(ctx, l.id)
	if err == nil {
		p.mu.Lock()
		l.loseLocked()
		p.mu.Unlock()
	}
	return err
}

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

// covers reports whether a lock whose request is sent at sent ends by l's own end.
func (p *pool) covers(l *lease, sent time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.coversLocked(sent)
}

// keep renews the lease of a waiter until ctx ends, or the place is lost and the lease dropped. It does nothing behind a proxy, where
// attempt.renewPlace does it.
func (p *pool) keep(ctx context.Context, l *lease) {
	if p.b.proxied.Load() {
		return
	}
	third := l.ttl / 3
	p.mu.Lock()
	next, over := time.Until(l.renewed.Add(third-rand.N(third/8))), !l.dropped.IsZero()
	p.mu.Unlock()
	if over {
		return
	}
	time.AfterFunc(max(next, third/4), func() {
		if ctx.Err() != nil || !p.b.calls.Begin() {
			return
		}
		defer p.b.calls.End()
		if _, err := p.refresh(ctx, l); !errors.Is(err, backend.ErrLost) {
			p.keep(ctx, l)
		}
	})
}

// isStale reports whether a lock must not count on the renewals of l.
func (p *pool) isStale(l *lease) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.isStale
}

// takeNew returns a lease that has just been granted or renewed by the leader that granted it.
func (p *pool) takeNew(ctx context.Context, class time.Duration) (*lease, error) {
	begun := time.Now()
	for {
		l, err := p.take(ctx, class)
		if err != nil || p.covers(l, begun) {
			return l, err
		}
		_, err = p.refresh(ctx, l)
		if err == nil && !p.isStale(l) {
			return l, nil
		}
		p.drop(l)
		if err != nil && !errors.Is(err, backend.ErrLost) && !errors.Is(err, errThroughProxy) {
			return nil, err
		}
	}
}

// refresh renews one lease, and returns when the request was sent. ErrLost says that it is gone. It tries again on a new stream, which logs in
// anew, too.
func (p *pool) refresh(ctx context.Context, l *lease) (sent time.Time, err error) {
	end := time.Now().Add(p.b.options.Timeout)
	patience := min(p.b.options.Timeout/attemptShare, max(l.ttl/12, 250*time.Millisecond))
	pause := kit.Pause{Min: leastPause, Max: mostPause}
	for {
		sent = time.Now()
		errs := p.renew(ctx, patience, l)
		err = errs[0]
		if again := passing(err) || code(err) == codes.Unauthenticated; !again || sent.After(end) {
			return sent, unavailable(err)
		}
		if serr := kit.Sleep(ctx, pause.Next(0)); serr != nil {
			return sent, kit.ContextError(ctx, err)
		}
	}
}

// renew renews leases once. An error is ErrLost where the server says that the lease is gone.
func (p *pool) renew(ctx context.Context, patience time.Duration, leases ...*lease) []error {
	ids := make([]int64, len(leases))
	for i, l := range leases {
		ids[i] = l.id
	}
	sent := time.Now()
	got := p.b.renewer.renew(ctx, patience, ids...)
	errs := make([]error, len(leases))
	answered := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, l := range leases {
		p.term = max(p.term, got[i].term)
		switch {
		case got[i].err != nil:
			errs[i] = got[i].err
		case got[i].seconds == 0:
			l.loseLocked()
			errs[i] = backend.ErrLost
		case got[i].term == l.heard && !answered.Before(l.renewed.Add(l.ttl)):
			// It may have run out before, and old servers answer renewals of leases that they are just ending. A new leader has given it
			// its whole TTL.
			p.dropLocked(l)
			l.loseLocked()
			errs[i] = backend.ErrLost
		case time.Duration(got[i].seconds)*time.Second >= l.ttl && sent.After(l.renewed):
			l.renewed, l.heard = sent, got[i].term
			l.isStale = l.isStale || got[i].term != l.term
		}
	}
	return errs
}
