package memcached

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	// minRenewLimit is the shortest time limit of a renewal, even if a short lease expires sooner.
	minRenewLimit = 250 * time.Millisecond
	// swapAttempts is how many times swap reads the item, because the item may change after each read.
	swapAttempts = 8
)

// requests makes the requests of kit.Leases.
type requests struct{ b *Backend }

var _ kit.Requests = requests{}

// Guarantees implements [kit.Requests].
func (q requests) Guarantees() backend.Guarantees { return q.b.guarantees }

// RenewLease implements [kit.Requests].
func (q requests) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	// If a connection hangs, the renewal fails while there is still time for another one.
	limit := max(ttl/3, minRenewLimit)
	return ttl, q.b.renew(ctx, lockName(l.Key()), recordOf(l), ttl, limit)
}

// RenewBatch implements [backend.BatchRenewer]. Each lease takes the same two requests as a single renewal. A batch
// saves CPU because all leases that are due soon share one timer and a few goroutines.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return b.leases.RenewBatch(ctx, renewals, b.renewAll)
}

// renewAll renews the leases on as many connections as Options allow.
func (b *Backend) renewAll(
	ctx context.Context, lives []*kit.Life, ttls []time.Duration,
) ([]time.Duration, []error) {
	granted, errs := make([]time.Duration, len(lives)), make([]error, len(lives))
	var workers sync.WaitGroup
	var last atomic.Int64
	for range min(len(lives), b.options.MaxConns) {
		workers.Go(func() {
			for i := last.Add(1) - 1; i < int64(len(lives)); i = last.Add(1) - 1 {
				granted[i], errs[i] = requests{b}.RenewLease(ctx, lives[i], ttls[i])
			}
		})
	}
	workers.Wait()
	return granted, errs
}

func recordOf(l *kit.Life) record {
	return record{token: l.Token(), owner: l.Owner(), key: l.Key()}
}

// renew extends the lock of r's owner to ttl from now.
func (b *Backend) renew(ctx context.Context, name string, r record, ttl, limit time.Duration) error {
	_, _, err := operation(ctx, b, limit, func(c *connection, _ bool) (struct{}, error) {
		return struct{}{}, swap(c, name, r, r.encode(), expiration(ttl))
	})
	return err
}

// swap replaces the lock of r's owner by value. It compares the owner, and replaces the item only if the item has not
// changed since it was read. ErrLost means that the owner does not hold the key.
func swap(c *connection, name string, r record, value []byte, expiration int32) error {
	for range swapAttempts {
		item, err := c.get(name)
		if errors.Is(err, memcache.ErrCacheMiss) {
			return backend.ErrLost
		}
		if err != nil {
			return err
		}
		if stored, err := decode(item.Value, r.key); err != nil || stored.owner != r.owner {
			return backend.ErrLost
		}
		item.Value, item.Expiration = value, expiration
		switch err := c.CompareAndSwap(item); {
		case errors.Is(err, memcache.ErrCASConflict): // the item has changed: read it again
		case errors.Is(err, memcache.ErrCacheMiss), errors.Is(err, memcache.ErrNotStored):
			return backend.ErrLost
		default:
			return err
		}
	}
	return errContended
}

// ReleaseLease implements [kit.Requests].
func (q requests) ReleaseLease(ctx context.Context, l *kit.Life) error {
	unsure, err := q.b.remove(ctx, recordOf(l))
	if unsure && errors.Is(err, backend.ErrLost) {
		return l.LostAfterDeadline()
	}
	return err
}

// remove removes the lock of r's owner. unsure reports whether an earlier request, which got no reply, may have removed
// the lock.
func (b *Backend) remove(ctx context.Context, r record) (unsure bool, err error) {
	_, unsure, err = operation(ctx, b, 0, func(c *connection, _ bool) (struct{}, error) {
		return struct{}{}, swap(c, lockName(r.key), r, nil, expireNow)
	})
	return unsure, err
}
