package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// changesAtOnce is how many requests for changes of leases are under way for one batch: to another TTL, or for all after a change of leader.
const changesAtOnce = 2

// RenewBatch implements [backend.BatchRenewer]: all leases are renewed on one stream, by a message each and without
// waiting in between. Those whose TTL changes are renewed one by one.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return b.leases.RenewBatch(ctx, renewals, b.sendBatch)
}

func (b *Backend) sendBatch(ctx context.Context, lives []*kit.Life, ttls []time.Duration) ([]time.Duration, []error) {
	all := make([]*extension, len(lives))
	var kept, changing []*extension
	for i, l := range lives {
		e := &extension{h: l.Data.(*held), owner: l.Owner(), ttl: ttls[i]}
		all[i] = e
		if e.main, e.err = e.h.keptBy(e.ttl); e.err != nil {
			continue
		}
		e.err = errNoAnswer // until there is one: perhaps ctx has ended by now, and no request is made
		if e.main != nil && !b.proxied.Load() {
			kept = append(kept, e)
		} else {
			changing = append(changing, e)
		}
	}
	var changes sync.WaitGroup // which wait for each other, but neither for renewals nor those for them: a stream may hang, or a change
	changes.Go(func() { b.changeHeld(ctx, changing) })
	b.renewKept(ctx, kept)
	var moving []*extension
	for _, e := range kept {
		stale := e.err == nil && b.pool.isStale(e.main) // there is a new leader
		if stale || errors.Is(e.err, errThroughProxy) {
			e.err = errNoAnswer
			moving = append(moving, e)
		}
	}
	b.changeHeld(ctx, moving)
	changes.Wait()
	errs := make([]error, len(all))
	for i, e := range all {
		errs[i] = e.err
	}
	return ttls, errs
}

// renewKept renews the leases of locks that keep theirs.
func (b *Backend) renewKept(ctx context.Context, list []*extension) {
	shortest := backend.MaxTTL
	for _, e := range list {
		shortest = min(shortest, e.ttl)
	}
	patience := min(b.options.Timeout, max(shortest/12, leastLimit))
	// Other rounds for what was not answered, each on a new stream: the next server may hang as well, for want of a leader.
	for round := 0; round < 4 && len(list) > 0 && ctx.Err() == nil; round++ {
		leases := make([]*lease, len(list))
		for i, e := range list {
			leases[i] = e.main
		}
		var again []*extension
		for i, err := range b.pool.renew(ctx, patience, leases...) {
			list[i].err = unavailable(err)
			if err != nil && err != backend.ErrLost && !errors.Is(err, errThroughProxy) {
				again = append(again, list[i])
			}
		}
		list = again
	}
}

// changeHeld gives locks another lease, as many in one request as it can.
func (b *Backend) changeHeld(ctx context.Context, list []*extension) {
	var changes sync.WaitGroup
	slots := make(chan struct{}, changesAtOnce)
	for some := range slices.Chunk(list, changesPerRequest) {
		slots <- struct{}{}
		changes.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() == nil {
				b.changeSome(ctx, some)
			}
		})
	}
	changes.Wait()
}

func (b *Backend) changeSome(ctx context.Context, some []*extension) {
	var list []*extension
	for _, e := range some {
		if !e.h.mu.TryLock() {
			e.err = errReleasing
			continue
		}
		defer e.h.mu.Unlock()
		if e.h.main == nil {
			e.err = backend.ErrLost
			continue
		}
		list = append(list, e)
	}
	b.changeAll(ctx, list)
}
