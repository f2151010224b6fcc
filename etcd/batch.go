package etcd

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// changesAtOnce is how many requests for changes of leases are under way for one batch: to another TTL, or for all after a change of leader.
const changesAtOnce = 2

// RenewBatch implements [backend.BatchRenewer]: all leases are renewed on one stream, by a message each and without
// waiting in between. Those whose TTL changes are renewed one by one.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return b.leases.RenewBatch(ctx, renewals, b.sendBatch)
}

func (b *Backend) sendBatch(ctx context.Context, lives []*backend.Life, ttls []time.Duration) ([]time.Duration, []error) {
	granted, errs := make([]time.Duration, len(lives)), make([]error, len(lives))
	var (
		same     []*lease
		index    []int
		changes  sync.WaitGroup
		slots    = make(chan struct{}, changesAtOnce)
		shortest time.Duration
	)
	// Changes wait for each other, but nothing for them: those that hang must not use up the time of all.
	change := func(which []int) {
		for some := range slices.Chunk(which, changesPerRequest) {
			changes.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				var moving []*backend.Life
				var to []time.Duration
				for _, i := range some {
					errs[i] = errNoAnswer
					moving, to = append(moving, lives[i]), append(to, granted[i])
				}
				if ctx.Err() != nil {
					return
				}
				for k, err := range b.changeLives(ctx, moving, to) {
					errs[some[k]] = err
				}
			})
		}
	}
	var other, moved []int
	for i, l := range lives {
		granted[i] = ttls[i]
		main, err := l.Data.(*held).keptBy(granted[i])
		switch {
		case err != nil:
			errs[i] = err
			continue
		case main == nil:
			other = append(other, i)
			continue
		}
		errs[i] = errNoAnswer // until there is one: perhaps ctx has ended by now, and no request is made
		same, index = append(same, main), append(index, i)
		if shortest == 0 || granted[i] < shortest {
			shortest = granted[i]
		}
	}
	change(other)
	kept, keptBy := same, index
	patience := min(b.options.Timeout, max(shortest/12, leastLimit))
	// Other rounds for what was not answered, each on a new stream: the next server may hang as well, for want of a leader.
	for round := 0; round < 4 && len(same) > 0 && ctx.Err() == nil; round++ {
		var again []*lease
		var at []int
		for k, err := range b.pool.renew(ctx, patience, same...) {
			errs[index[k]] = unavailable(err)
			if err != nil && err != backend.ErrLost {
				again, at = append(again, same[k]), append(at, index[k])
			}
		}
		same, index = again, at
	}
	for k, l := range kept {
		if i := keptBy[k]; errs[i] == nil && b.pool.isStale(l) { // there is a new leader
			moved = append(moved, i)
		}
	}
	change(moved)
	changes.Wait()
	return granted, errs
}
