package locktest

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/memory"
)

// A client is the connection of one simulated process to the Store. It does not implement backend.BatchRenewer, so that
// each renewal is a separate request.
type client struct {
	memory *memory.Backend
	store  *Store
	calls  *kit.Leases // of its calls, Close ends those whose requests have not reached the store
}

func newClient(s *Store) *client { return &client{s.memory.Client(), s, kit.NewLeases(nil, 0)} }

// request simulates one request's way to the store. It returns nil if the request arrives.
func (c *client) request(ctx context.Context) error { return c.calls.Call(ctx, nil, c.store.request) }

var _ interface {
	backend.Backend
	backend.Lister
	backend.Breaker
} = (*client)(nil)

// Acquire implements backend.Backend.
func (c *client) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := r.ValidateFor(c.Guarantees()); err != nil {
		return nil, err
	}
	if err := c.request(ctx); err != nil {
		return nil, err
	}
	granted, err := c.memory.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	l := &lease{granted.(*kit.Life), c}
	c.store.mu.Lock()
	c.store.lives[r.Owner] = l.Life
	c.store.mu.Unlock()
	_ = l.Life.Renew(context.Background(), r.TTL) // notices a loss that came before the entry in lives
	return l, nil
}

// Inspect implements backend.Backend.
func (c *client) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := c.request(ctx); err != nil {
		return backend.Holder{}, err
	}
	return c.memory.Inspect(ctx, key)
}

// List implements backend.Lister.
func (c *client) List(ctx context.Context, prefix string) ([]string, error) {
	if err := c.request(ctx); err != nil {
		return nil, err
	}
	return c.memory.List(ctx, prefix)
}

// Break implements backend.Breaker.
func (c *client) Break(ctx context.Context, key, owner string) error {
	if err := c.request(ctx); err != nil {
		return err
	}
	return c.memory.Break(ctx, key, owner)
}

// Guarantees implements backend.Backend.
func (c *client) Guarantees() backend.Guarantees { return c.memory.Guarantees() }

// Close implements backend.Backend.
func (c *client) Close() error {
	c.calls.Close()
	return c.memory.Close()
}

// A lease is a lease in memory whose requests can fail as the test demands.
type lease struct {
	*kit.Life
	client *client
}

// Renew implements backend.Lease.
func (l *lease) Renew(ctx context.Context, ttl time.Duration) error {
	if err := l.client.request(ctx); err != nil {
		return err
	}
	return l.Life.Renew(ctx, ttl)
}

// Release implements backend.Lease. Even if the request fails, the holder is no longer notified of a loss.
func (l *lease) Release(ctx context.Context) error {
	s := l.client.store
	s.mu.Lock()
	delete(s.lives, l.Owner())
	s.mu.Unlock()
	if err := l.client.request(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return l.Life.Release(ctx)
}
