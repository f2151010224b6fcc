package memory

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A Backend is one client of a Store. It implements backend.Backend and backend.BatchRenewer.
type Backend struct {
	store  *Store
	leases *kit.Leases
	left   func() // what Close does last
}

var _ interface {
	backend.Backend
	backend.BatchRenewer
} = (*Backend)(nil)

func newBackend(s *Store, left func()) *Backend {
	b := &Backend{store: s, left: left}
	const timeout = time.Second // never reached: no request waits for anything but a mutex
	b.leases = kit.NewLeases(requests{s}, timeout)
	return b
}

// Acquire implements backend.Backend.
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := b.leases.Enter(ctx, r.ValidateFor(guarantees)); err != nil {
		return nil, err
	}
	defer b.leases.Leave()
	g, err := b.acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	l, err := b.leases.Grant(ctx, r, g)
	if err != nil {
		// At once: here no outcome is unknown.
		b.store.release(r.Key, r.Owner)
		if g.Got.IsZero() && kit.IsContextError(err) { // it has waited
			err = kit.ContextError(ctx, backend.ErrHeld)
		}
		return nil, err
	}
	return l, nil
}

func (b *Backend) acquire(ctx context.Context, r backend.Request) (kit.Grant, error) {
	ttl := guarantees.Round(r.TTL)
	g, w, holder := b.store.acquire(r, ttl)
	got := g.at
	switch {
	case w != nil:
		select {
		case g = <-w.granted:
		case <-ctx.Done():
			b.store.leave(w)
			return kit.Grant{}, kit.ContextError(ctx, &backend.HeldError{Holder: holder})
		case <-b.leases.Closing().Done():
			b.store.leave(w)
			return kit.Grant{}, backend.ErrClosed
		}
		if time.Until(backend.Deadline(g.at, ttl)) <= 0 {
			b.store.release(r.Key, r.Owner) // the process stood still for as long as the TTL: queue again
			return b.acquire(ctx, r)
		}
		got = time.Time{}
	case holder.Held():
		return kit.Grant{}, &backend.HeldError{Holder: holder}
	}
	return kit.Grant{Token: g.token, Sent: g.at, Got: got, TTL: ttl}, nil
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
	return b.leases.RenewBatch(ctx, renewals, func(_ context.Context, lives []*kit.Life, ttls []time.Duration) (
		granted []time.Duration, errs []error,
	) {
		errs = make([]error, len(lives))
		b.store.mu.Lock()
		defer b.store.mu.Unlock()
		for i, l := range lives {
			if b.store.renewLocked(l.Key(), l.Owner(), ttls[i]) == nil {
				errs[i] = backend.ErrLost
			}
		}
		return ttls, errs
	})
}

// Close implements backend.Backend.
func (b *Backend) Close() error {
	if b.leases.Close() {
		b.left()
	}
	return nil
}

// requests implements kit.Requests for a Store.
type requests struct{ store *Store }

// Guarantees implements kit.Requests.
func (requests) Guarantees() backend.Guarantees { return guarantees }

// RenewLease implements kit.Requests.
func (q requests) RenewLease(_ context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	if q.store.renewLocked(l.Key(), l.Owner(), ttl) == nil {
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
