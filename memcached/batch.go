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

// sendShare renews what one request reads: again those leases that an answer leaves in doubt. Each answer counts by itself, so
// that on a slow network some are renewed when time is up.
func (b *Backend) sendShare(ctx context.Context, lives []*backend.Life, granted []time.Duration, errs []error) {
	limit := backend.MaxTTL
	for i := range lives {
		if errs[i] == nil { // else its TTL is too long
			errs[i] = errAgain
			limit = min(limit, max(granted[i]/3, leastLimit))
		}
	}
	for try := 1; slices.Contains(errs, errAgain); {
		again, _, err := ask(ctx, b, limit, func(c *lane, _ bool) (bool, error) {
			return b.renewShare(c, lives, granted, errs, try == prolongAttempts)
		})
		if again {
			try++
			_ = backend.Sleep(ctx, settle)
		}
		if err == nil && backend.Ended(ctx) {
			err = backend.ContextError(ctx, nil)
		}
		for i := range errs {
			if err != nil && errors.Is(errs[i], errAgain) {
				errs[i] = err
			}
		}
	}
}

// errAgain is of a lease that is still to be renewed.
var errAgain = errors.New("renew again")

// renewShare renews the leases that are still to be renewed, and sets their errors; err is that of the connection. again tells that it
// leaves some because of a slow answer, or of an item that has changed since it was read: not the last time, which counts as it is.
func (b *Backend) renewShare(
	c *lane, lives []*backend.Life, granted []time.Duration, errs []error, last bool,
) (again bool, err error) {
	var left []int
	var names []string
	for i, l := range lives {
		if errors.Is(errs[i], errAgain) {
			left, names = append(left, i), append(names, b.naming.lock(l.Key()))
		}
	}
	// A server that was paused serves by the clock of before what follows its late answer, too. Connecting counts: a TLS
	// handshake is the server's work.
	before := time.Now()
	late := func() bool {
		took := time.Since(before)
		before = before.Add(took)
		return took > slow && !last
	}
	items, err := c.GetMulti(names)
	if err != nil || late() {
		return err == nil, err
	}
	for k, i := range left {
		item := items[names[k]]
		if item == nil {
			errs[i] = backend.ErrLost
			continue
		}
		r := recordOf(lives[i])
		err = swapItem(c, item, r, r.encode(), expiration(granted[i]))
		slowly := late()
		switch {
		case broken(err):
			return false, err
		case err == nil && slowly: // in doubt
		case errors.Is(err, memcache.ErrCASConflict) && !last:
			again = true
		case errors.Is(err, memcache.ErrCASConflict):
			errs[i] = errContended
		default:
			errs[i] = explain(err)
			if err != nil && isServerError(err) {
				return slowly, nil // the library has closed the connection, with which the numbers are void
			}
		}
		if slowly {
			return true, nil
		}
	}
	return again, nil
}
