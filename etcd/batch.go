package etcd

import (
	"context"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// changesAtOnce is how many leases of a batch change their TTL at the same time.
const changesAtOnce = 16

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
	change := func(i int) {
		changes.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if errs[i] = errNoAnswer; ctx.Err() == nil {
				errs[i] = b.change(ctx, lives[i], granted[i])
			}
		})
	}
	for i, l := range lives {
		granted[i] = b.guarantees.Round(ttls[i])
		main, err := l.Data.(*held).keptBy(granted[i])
		switch {
		case err != nil:
			errs[i] = err
			continue
		case main == nil:
			change(i)
			continue
		}
		errs[i] = errNoAnswer // until there is one: perhaps ctx has ended by now, and no request is made
		same, index = append(same, main), append(index, i)
		if shortest == 0 || granted[i] < shortest {
			shortest = granted[i]
		}
	}
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
			change(i)
		}
	}
	changes.Wait()
	return granted, errs
}
