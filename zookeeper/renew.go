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

// batchPaths are checked by one request: their names, of 3 KiB at most, are well below what servers accept.
const batchPaths = 64

// RenewBatch implements [backend.BatchRenewer]: one request for the leases of each session.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	plain := make([]backend.Renewal, len(renewals))
	for i, r := range renewals {
		plain[i] = r
		if l, ok := r.Lease.(lease); ok {
			plain[i].Lease = l.Life
		}
	}
	return b.leases.RenewBatch(ctx, plain, b.renewAll)
}

// renewAll renews leases side by side, those that stay in their session together.
func (b *Backend) renewAll(ctx context.Context, lives []*kit.Life, ttls []time.Duration) (granted []time.Duration, errs []error) {
	errs = make([]error, len(lives))
	begun := time.Now()
	groups := make(map[*session][]int)
	var wg sync.WaitGroup
	for i, l := range lives {
		n := l.Data.(*node)
		s, maybe := n.home()
		if !begun.Before(lease{l, n}.Deadline()) { // its session may have expired, as keepAlive is about to notice
			l.Lose()
			errs[i] = backend.ErrLost
			continue
		}
		if maybe == nil && b.limits.session(ttls[i]) <= s.class {
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
				each := s.checkEach(ctx, paths)
				for k, i := range part {
					if errs[i] = each[k]; errs[i] == nil {
						errs[i] = s.cover(ctx, lives[i].Data.(*node), begun, ttls[i])
					}
				}
			})
		}
	}
	wg.Wait()
	for i, err := range errs {
		s, _ := lives[i].Data.(*node).home()
		switch {
		case err == nil:
		case errors.Is(err, zk.ErrNoNode), s.isOver() && !b.isClosing():
			errs[i] = backend.ErrLost
		default:
			errs[i] = unavailable(ctx, err)
		}
	}
	return ttls, errs
}

// renewMoving renews a lease whose last move went unanswered, or whose TTL wants a longer session. Each move is a write that proves the
// node. It never is to a shorter session.
func (b *Backend) renewMoving(ctx context.Context, n *node, begun time.Time, ttl time.Duration) error {
	if err := b.settle(ctx, n); err != nil {
		return err
	}
	s, _ := n.home()
	if class := b.limits.session(ttl); class > s.class {
		to, err := b.enter(class)
		if err != nil {
			return err
		}
		defer b.leave(to)
		s = to
		if err := b.move(ctx, n, to, backend.Deadline(begun, min(ttl, b.guarantees.MaxSilence))); err != nil {
			return err
		}
	}
	return s.cover(ctx, n, begun, ttl)
}

// cover makes sure that the session is kept for as long as a renewal of n promises.
func (s *session) cover(ctx context.Context, n *node, begun time.Time, ttl time.Duration) error {
	prove := func(ctx context.Context) error { return s.check(ctx, n.path()) }
	return s.secure(ctx, backend.Deadline(begun, min(ttl, s.b.guarantees.MaxSilence)), prove)
}

// checkEach checks many nodes. The ensemble checks all or none, so that each is asked for where one is missing.
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
