package memcached

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

const (
	// leastLimit is the least time in which a renewal must be answered; a short lease's deadline may come sooner.
	leastLimit = 250 * time.Millisecond
	// swapAttempts is how often an item may change between being read and being swapped.
	swapAttempts = 8
)

// requests are what Leases asks of the server.
type requests struct{ b *Backend }

var _ backend.Requests = requests{}

// Guarantees implements [backend.Requests].
func (q requests) Guarantees() backend.Guarantees { return q.b.guarantees }

// RenewLease implements [backend.Requests].
func (q requests) RenewLease(ctx context.Context, l *backend.Life, ttl time.Duration) (time.Duration, error) {
	granted, err := q.b.round(ttl)
	if err != nil {
		return 0, err
	}
	// On a connection that hangs a renewal fails while there is time for another one.
	limit := max(granted/3, leastLimit)
	err = q.b.renew(ctx, q.b.naming.lock(l.Key()), recordOf(l), granted, limit)
	return granted, err
}

// RenewBatch implements [backend.BatchRenewer]. Each lease takes the same two requests as a single renewal. A batch
// saves CPU because all leases that are due soon share one timer and a few goroutines.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return b.leases.RenewBatch(ctx, renewals, b.renewAll)
}

// renewAll renews the leases on as many connections as Options allow.
func (b *Backend) renewAll(
	ctx context.Context, lives []*backend.Life, ttls []time.Duration,
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

func recordOf(l *backend.Life) record {
	return record{token: l.Token(), owner: l.Owner(), key: l.Key()}
}

// renew extends the lock of r's owner to ttl from now.
func (b *Backend) renew(ctx context.Context, name string, r record, ttl, limit time.Duration) error {
	_, _, err := ask(ctx, b, limit, func(c *lane, _ bool) (struct{}, error) {
		return struct{}{}, swap(c, name, r, r.encode(), expiration(ttl))
	})
	return err
}

// swap replaces the lock of r's owner by value. The owner is compared by value, and the item swapped only if it has not
// changed since. ErrLost says that this owner does not hold the key.
func swap(c *lane, name string, r record, value []byte, expiration int32) error {
	for range swapAttempts {
		item, err := c.Get(name)
		if errors.Is(err, memcache.ErrCacheMiss) {
			return backend.ErrLost
		}
		if err != nil {
			return readError{err}
		}
		if err := checkCAS(item); err != nil {
			return err
		}
		if now, err := decode(item.Value, r.key); err != nil || now.owner != r.owner {
			return backend.ErrLost
		}
		item.Value, item.Expiration = value, expiration
		switch err := c.CompareAndSwap(item); {
		case errors.Is(err, memcache.ErrCASConflict): // the item has changed: read it again
		case errors.Is(err, memcache.ErrCacheMiss), errors.Is(err, memcache.ErrNotStored):
			return backend.ErrLost
		case broken(err):
			return laterError{err}
		default:
			return err
		}
	}
	return errContended
}

// ReleaseLease implements [backend.Requests].
func (q requests) ReleaseLease(ctx context.Context, l *backend.Life) error {
	h, _ := l.Data.(*held)
	if h != nil { // a release is not called off before Close: its context only bounds it, as Options.Timeout does
		ctx = q.b.base
	}
	name := q.b.naming.lock(l.Key())
	_, unanswered, err := ask(ctx, q.b, 0, func(c *lane, _ bool) (struct{}, error) {
		return struct{}{}, swap(c, name, recordOf(l), nil, gone)
	})
	switch {
	case err != nil && !errors.Is(err, backend.ErrLost):
		return err
	case h == nil:
		// An owner is being abandoned whose request may still be on its way, also behind this removal: nothing is certain
		// until it has been looked for again.
		return fmt.Errorf("%w: owner is being abandoned", backend.ErrLost)
	case h.echo:
		q.b.leases.Abandon(l.Key(), l.Owner(), h.ttl)
	}
	if unanswered { // an attempt without an answer may have done it
		return nil
	}
	return err
}
