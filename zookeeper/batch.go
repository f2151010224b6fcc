package zookeeper

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
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
func (b *Backend) renewAll(ctx context.Context, lives []*backend.Life, ttls []time.Duration) ([]time.Duration, []error) {
	granted, errs := make([]time.Duration, len(lives)), make([]error, len(lives))
	q, begun := requests{b}, time.Now()
	groups := make(map[*session][]int)
	var wg sync.WaitGroup
	for i, l := range lives {
		n := l.Data.(*node)
		s, maybe := n.home()
		if maybe == nil && b.limits.session(ttls[i]) <= s.class {
			groups[s] = append(groups[s], i)
			continue
		}
		wg.Go(func() { granted[i], errs[i] = q.RenewLease(ctx, l, ttls[i]) })
	}
	for s, members := range groups {
		for part := range slices.Chunk(members, batchPaths) {
			wg.Go(func() {
				each := s.checkEach(ctx, lives, part)
				for k, i := range part {
					n := lives[i].Data.(*node)
					if errs[i] = each[k]; errs[i] != nil {
						errs[i] = q.renewError(ctx, n, errs[i])
						continue
					}
					prove := func(ctx context.Context) error { return lostIf(s.check(ctx, n.path())) }
					granted[i], errs[i] = q.renewed(ctx, n, s, begun, ttls[i], prove)
				}
			})
		}
	}
	wg.Wait()
	return granted, errs
}

// checkEach checks the nodes of many leases. The ensemble checks all or none, so what is missing is left out the next time.
func (s *session) checkEach(ctx context.Context, lives []*backend.Life, part []int) []error {
	errs := make([]error, len(part))
	left := make([]int, len(part)) // places in part
	for k := range part {
		left[k] = k
	}
	for len(left) > 0 {
		paths := make([]string, len(left))
		for j, k := range left {
			paths[j] = lives[part[k]].Data.(*node).path()
		}
		each, err := s.checkAll(ctx, paths)
		if err == nil {
			break
		}
		missing := slices.IndexFunc(each, func(r zk.MultiResponse) bool { return errors.Is(r.Error, zk.ErrNoNode) })
		if missing < 0 || missing >= len(left) {
			for _, k := range left {
				errs[k] = err
			}
			break
		}
		errs[left[missing]] = zk.ErrNoNode
		left = slices.Delete(left, missing, missing+1)
	}
	return errs
}
