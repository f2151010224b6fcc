package memcached

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

const (
	// leastLimit is the least time in which a renewal must be answered; a short lease's deadline may come sooner.
	leastLimit = 250 * time.Millisecond
	// swapAttempts is how often an item may change between being read and being swapped.
	swapAttempts = 8
	// prolongAttempts is how often a lock is prolonged whose answers are slow. The last time counts as it is: the network
	// may be slow, too.
	prolongAttempts = 3
	// settle is for how long a server that runs again may serve by its clock of before: to look at it is another thread's work.
	settle = 100 * time.Millisecond
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
	err = q.b.prolong(ctx, q.b.naming.lock(l.Key()), recordOf(l), granted, limit)
	return granted, err
}

func recordOf(l *backend.Life) record {
	return record{token: l.Token(), owner: l.Owner(), key: l.Key()}
}

// prolong prolongs the lock of r's owner to ttl from now.
func (b *Backend) prolong(ctx context.Context, name string, r record, ttl, limit time.Duration) error {
	for i := 1; ; i++ {
		took, _, err := ask(ctx, b, limit, func(c *lane, _ bool) (time.Duration, error) {
			sent := time.Now()
			err := swap(c, name, r, r.encode(), expiration(ttl))
			return time.Since(sent), err
		})
		if err != nil || took <= slow || i == prolongAttempts {
			return err
		}
		if err := backend.Sleep(ctx, settle); err != nil {
			return err
		}
	}
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
		if err := swapItem(c, item, r, value, expiration); !errors.Is(err, memcache.ErrCASConflict) {
			return err
		}
	}
	return errContended
}

// swapItem is swap of an item that has just been read. ErrCASConflict says that it has changed since.
func swapItem(c *lane, item *memcache.Item, r record, value []byte, expiration int32) error {
	if err := checkCAS(item); err != nil {
		return err
	}
	if now, err := decode(item.Value, r.key); err != nil || now.owner != r.owner {
		return backend.ErrLost
	}
	item.Value, item.Expiration = value, expiration
	switch err := c.CompareAndSwap(item); {
	case errors.Is(err, memcache.ErrCacheMiss), errors.Is(err, memcache.ErrNotStored):
		return backend.ErrLost
	case broken(err):
		return laterError{err}
	default:
		return err
	}
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
