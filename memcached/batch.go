package memcached

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

const (
	batchLeases  = 32 // read by one request, then swapped one by one on the same connection
	batchWorkers = 8
)

// RenewBatch implements [backend.BatchRenewer]: leases are read by the dozen, which saves nearly half of the requests, and
// swapped on several connections side by side.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return b.leases.RenewBatch(ctx, renewals, b.sendBatch)
}

func (b *Backend) sendBatch(ctx context.Context, lives []*backend.Life, ttls []time.Duration) ([]time.Duration, []error) {
	granted, errs := make([]time.Duration, len(lives)), make([]error, len(lives))
	for i, ttl := range ttls {
		granted[i], errs[i] = b.round(ttl)
	}
	var workers sync.WaitGroup
	slots := make(chan struct{}, batchWorkers)
	for i := 0; i < len(lives); i += batchLeases {
		end := min(i+batchLeases, len(lives))
		slots <- struct{}{}
		workers.Go(func() {
			defer func() { <-slots }()
			b.sendShare(ctx, lives[i:end], granted[i:end], errs[i:end])
		})
	}
	workers.Wait()
	return granted, errs
}

// sendShare renews what one request reads.
func (b *Backend) sendShare(ctx context.Context, lives []*backend.Life, granted []time.Duration, errs []error) {
	limit := backend.MaxTTL
	names := make([]string, len(lives))
	for i, l := range lives {
		names[i] = b.naming.lock(l.Key())
		if errs[i] == nil {
			limit = min(limit, max(granted[i]/3, leastLimit))
		}
	}
	found, _, err := ask(ctx, b, limit, func(c *lane, _ bool) ([]error, error) {
		return b.renewShare(c, names, lives, granted)
	})
	if slices.ContainsFunc(found, func(err error) bool { return errors.Is(err, errAgain) }) {
		_ = backend.Sleep(ctx, settle) // prolong finds out
	}
	for i := range lives {
		switch {
		case errs[i] != nil: // its TTL is too long
		case err != nil:
			errs[i] = err
		case errors.Is(found[i], errAgain):
			errs[i] = b.prolong(ctx, names[i], recordOf(lives[i]), granted[i], limit)
		default:
			errs[i] = found[i]
		}
	}
}

// errAgain says that a lease is to be renewed by itself, by prolong.
var errAgain = errors.New("renew again")

// renewShare returns the error of each lease, or that of the connection.
func (b *Backend) renewShare(
	c *lane, names []string, lives []*backend.Life, granted []time.Duration,
) (found []error, err error) {
	sent := time.Now()
	items, err := c.GetMulti(names)
	if err != nil {
		return nil, err
	}
	late := time.Since(sent) > slow // what follows a slow answer is served by the clock of before, too
	found = make([]error, len(lives))
	for i, l := range lives {
		if granted[i] == 0 {
			continue // its TTL is too long
		}
		item := items[names[i]]
		if item == nil {
			found[i] = backend.ErrLost
			continue
		}
		sent = time.Now()
		err = swapItem(c, item, recordOf(l), recordOf(l).encode(), expiration(granted[i]))
		late = late || time.Since(sent) > slow
		switch {
		case broken(err):
			return nil, err
		case errors.Is(err, memcache.ErrCASConflict), err == nil && late:
			found[i] = errAgain
		case err != nil && isServerError(err): // the library has closed the connection, with which the numbers are void
			found[i] = explain(err)
			for j := i + 1; j < len(found); j++ {
				found[j] = errAgain
			}
			return found, nil
		default:
			found[i] = explain(err)
		}
	}
	return found, nil
}
