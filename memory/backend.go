package memory

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A Backend is one client of a Store. It implements backend.Backend and backend.BatchRenewer.
type Backend struct {
	store   *Store
	leases  *kit.Leases
	onClose func() // called once, at the end of Close
}

var _ interface {
	backend.Backend
	backend.BatchRenewer
} = (*Backend)(nil)

func newBackend(s *Store, left func()) *Backend {
	b := &Backend{store: s, onClose: left}
	const timeout = time.Second // never reached, because requests wait only for a mutex
	b.leases = kit.NewLeases(requests{s}, timeout)
	return b
}

// Acquire implements backend.Backend.
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := b.leases.Enter(ctx, r.ValidateFor(guarantees)); err != nil {
		return nil, err
	}
	defer b.leases.Leave()
	r.TTL = guarantees.Round(r.TTL)
	g, w, holder := b.store.acquire(r)
	var busy, err error
	if holder.Held() {
		busy = &backend.HeldError{Holder: holder}
		if w == nil {
			return nil, busy
		}
		select {
		case g = <-w.granted:
		case <-ctx.Done():
			err = ctx.Err()
		case <-b.leases.Closing().Done():
			err = backend.ErrClosed
		}
	}
	if err == nil {
		var l *kit.Life
		if l, err = b.leases.Grant(ctx, r, g); err == nil {
			return l, nil
		}
	}
	b.store.release(r.Key, r.Owner) // synchronous, because in memory every outcome is known
	if busy != nil && kit.IsContextError(err) {
		err = kit.ContextError(ctx, busy)
	}
	return nil, err
}

// Inspect implements backend.Backend.
func (b *Backend) Inspect(ctx context.Context, key string) (h backend.Holder, err error) {
	err = b.leases.Call(ctx, backend.ValidateKey(key), func(context.Context) error {
		h = b.store.inspect(key)
		return nil
	})
	return h, err
}

// Guarantees implements backend.Backend.
func (b *Backend) Guarantees() backend.Guarantees { return guarantees }

// RenewBatch implements backend.BatchRenewer.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return b.leases.RenewBatch(ctx, renewals, func(ctx context.Context, lives []*kit.Life, ttls []time.Duration) (
		granted []time.Duration, errs []error,
	) {
		errs = make([]error, len(lives))
		for i, l := range lives {
			_, errs[i] = requests{b.store}.RenewLease(ctx, l, ttls[i])
		}
		return ttls, errs
	})
}

// Close implements backend.Backend.
func (b *Backend) Close() error {
	if b.leases.Close() {
		b.onClose()
	}
	return nil
}

// requests implements kit.Requests for a Store.
type requests struct{ store *Store }

// Guarantees implements kit.Requests.
func (requests) Guarantees() backend.Guarantees { return guarantees }

// RenewLease implements kit.Requests.
func (q requests) RenewLease(_ context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	if _, held := q.store.renew(l.Key(), l.Owner(), l.Shared(), ttl); !held {
		return 0, backend.ErrLost
	}
	return ttl, nil
}

// ReleaseLease implements kit.Requests.
func (q requests) ReleaseLease(_ context.Context, l *kit.Life) error {
	if !q.store.release(l.Key(), l.Owner()) {
		return backend.ErrLost
	}
	return nil
}
