package zookeeper

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A lease is a Life whose deadline is limited: it is never later than the time until which the ensemble certainly keeps
// the session, and never further away than MaxSilence. The deadline of the Life itself is later only if its TTL is
// longer than MaxSilence.
type lease struct {
	*kit.Life
	n *node
}

// Deadline implements [backend.Lease]. The session of a lost lease may live on, but cannot revive the lease.
func (l lease) Deadline() time.Time {
	l.n.mu.Lock()
	s, limit := l.n.s, l.n.final
	l.n.mu.Unlock()
	if limit.IsZero() {
		limit = s.contact.limit(s.b.guarantees.MaxSilence)
	}
	return earlier(l.Life.Deadline(), limit)
}

// startLease returns the lease of n. If the lease ends without a release, this process deletes the node. If the process
// hangs, the end of the session deletes the node.
func (b *Backend) startLease(n *node, life *kit.Life) backend.Lease {
	n.mu.Lock()
	n.life = life
	n.mu.Unlock()
	life.OnLost(func() {
		s, _ := n.sessions()
		n.freezeDeadline(s.contact.limit(b.guarantees.MaxSilence))
		if !b.leases.Closed() {
			b.calls.Background(func() { b.deleteOrphan(n) })
		}
	})
	if s, _ := n.sessions(); s.hasEnded() { // the session may have ended since addNode
		life.Lose()
	} else {
		s.watchSoon(n)
	}
	return lease{life, n}
}

// deleteOrphan deletes the node of a lease that has ended, in each session to which the node may belong.
func (b *Backend) deleteOrphan(n *node) {
	s, target := n.end()
	for _, s := range []*session{s, target} {
		if s != nil {
			s.deleteLater(&pendingDelete{dir: n.dir, name: n.name, orphan: true})
			s.removeNode(n)
		}
	}
}

// requests implements [kit.Requests] for an ensemble.
type requests struct{ *Backend }

var _ kit.Requests = requests{}

// RenewLease implements [kit.Requests].
func (q requests) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	granted, errs := q.renewAll(ctx, []*kit.Life{l}, []time.Duration{ttl})
	return granted[0], errs[0]
}

// ReleaseLease implements [kit.Requests]. l.Data is always the node of a grant. After an attempt that failed before its
// grant, kit calls attempt.withdraw instead.
func (q requests) ReleaseLease(ctx context.Context, l *kit.Life) error {
	n := l.Data.(*node)
	s, target := n.end()
	if s.hasEnded() && target != nil && !target.hasEnded() {
		s = target
	}
	defer s.removeNode(n)
	if s.hasEnded() { // the servers delete its nodes
		return backend.ErrLost
	}
	ctx = context.WithoutCancel(ctx)
	unsure, err := s.delete(ctx, n.path())
	if target != nil {
		q.deleteOrphan(n)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoNode) && unsure:
		return l.LostAfterDeadline()
	case errors.Is(err, zk.ErrNoNode):
		return backend.ErrLost
	}
	s.deleteLater(&pendingDelete{dir: n.dir, name: n.name})
	return unavailable(ctx, err)
}

// batchPaths is the number of paths that one request checks. A path is at most about 3.9 KiB and longestChroot long, so
// the request fits into bufferSize, and is well below the size that servers accept.
const batchPaths = 64

// RenewBatch implements [backend.BatchRenewer]. One request renews up to batchPaths leases of one session.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	lives := make([]backend.Renewal, len(renewals))
	for i, r := range renewals {
		lives[i] = r
		if l, ok := r.Lease.(lease); ok {
			lives[i].Lease = l.Life
		}
	}
	return b.leases.RenewBatch(ctx, lives, b.renewAll)
}

// renewAll renews leases concurrently. Leases that stay in their session share requests.
func (b *Backend) renewAll(
	ctx context.Context, lives []*kit.Life, ttls []time.Duration,
) (granted []time.Duration, errs []error) {
	errs = make([]error, len(lives))
	begun := time.Now()
	groups := make(map[*session][]int)
	var wg sync.WaitGroup
	for i, l := range lives {
		n := l.Data.(*node)
		s, target := n.sessions()
		if !begun.Before(lease{l, n}.Deadline()) { // the session may have expired, as keepAlive will notice soon
			l.Lose()
			errs[i] = backend.ErrLost
			continue
		}
		if target == nil && b.limits.sessionTimeout(ttls[i]) <= s.class {
			groups[s] = append(groups[s], i)
			continue
		}
		wg.Go(func() { errs[i] = b.renewMoving(ctx, n, begun, ttls[i]) })
	}
	for s, members := range groups {
		for part := range slices.Chunk(members, batchPaths) {
			wg.Go(func() {
				paths := make([]string, len(part))
				for k, i := range part {
					paths[k] = lives[i].Data.(*node).path()
				}
				for k, err := range s.checkEach(ctx, paths) {
					i := part[k]
					if errs[i] = err; err == nil {
						errs[i] = s.proveRenewal(ctx, lives[i].Data.(*node), begun, ttls[i])
					}
				}
			})
		}
	}
	wg.Wait()
	for i, err := range errs {
		s, _ := lives[i].Data.(*node).sessions()
		switch {
		case err == nil:
		case errors.Is(err, zk.ErrNoNode), s.hasEnded() && !b.leases.Closed():
			errs[i] = backend.ErrLost
		default:
			errs[i] = unavailable(ctx, err)
		}
	}
	return ttls, errs
}

// renewMoving renews a lease whose last move was not answered, or whose TTL needs a longer session. A move is a write,
// so it proves the node. A lease never moves to a shorter session.
func (b *Backend) renewMoving(ctx context.Context, n *node, begun time.Time, ttl time.Duration) error {
	if err := n.finishMove(ctx); err != nil {
		return err
	}
	s, _ := n.sessions()
	if class := b.limits.sessionTimeout(ttl); class > s.class {
		target, err := b.checkOut(class)
		if err != nil {
			return err
		}
		defer b.checkIn(target)
		s = target
		if err := n.move(ctx, target, backend.Deadline(begun, min(ttl, b.guarantees.MaxSilence))); err != nil {
			return err
		}
	}
	return s.proveRenewal(ctx, n, begun, ttl)
}

// proveRenewal proves that the session is kept for as long as a renewal of n promises.
func (s *session) proveRenewal(ctx context.Context, n *node, begun time.Time, ttl time.Duration) error {
	return s.proveUntil(ctx, backend.Deadline(begun, min(ttl, s.b.guarantees.MaxSilence)),
		func(ctx context.Context) error { return s.check(ctx, n.path()) })
}

// checkEach checks that each of paths exists. The ensemble checks all paths of a request or none, so if a node is
// missing, checkEach sends one request for each.
func (s *session) checkEach(ctx context.Context, paths []string) []error {
	err := s.check(ctx, paths...)
	if !errors.Is(err, zk.ErrNoNode) || len(paths) == 1 {
		return slices.Repeat([]error{err}, len(paths))
	}
	errs := make([]error, len(paths))
	var wg sync.WaitGroup
	for i, path := range paths {
		wg.Go(func() { errs[i] = s.check(ctx, path) })
	}
	wg.Wait()
	return errs
}

// A holder is notified at once if another client deletes its node, by a watch on the node. The read that sets the
// watch is sent when the lease has lived for watchAfter, so a shorter cycle of acquire and release does not pay for
// it. If the node was deleted before, the read finds it missing.
const (
	watchAfter  = 100 * time.Millisecond
	watchAtOnce = 64 // concurrent reads that set watches, for each session
)

// watchSoon makes this session watch n after watchAfter. n must belong to this session.
func (s *session) watchSoon(n *node) {
	time.AfterFunc(s.b.watchAfter, func() { s.watchNow(n) })
}

func (s *session) watchNow(n *node) {
	if s.hasEnded() || n.hasEnded() {
		return
	}
	s.b.calls.Background(func() {
		s.watchSlots <- struct{}{}
		defer func() { <-s.watchSlots }()
		s.watchLease(n)
	})
}

// watchLease watches the node of a lease, and ends the lease if the node is missing. Once a server has seen the node,
// the node is missing only if it was deleted. A move deletes the node and creates it again in one write, so no read
// finds the node missing.
func (s *session) watchLease(n *node) {
	_, err := s.watch(context.Background(), n.path(), func(bool) { s.watchNow(n) })
	current, _ := n.sessions()
	switch {
	case err == nil:
	case errors.Is(err, zk.ErrNoNode) && current == s:
		n.lease().Lose()
	default:
		current.watchSoon(n) // unless the lease or the session has ended by then
	}
}
