package file

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

const (
	// requestTimeout bounds a release or renewal. One takes some 20 µs, or a little more than breakAfter when it meets a
	// process that was stopped at the wrong moment.
	requestTimeout = 5 * time.Second
	// leaveTimeout bounds what a cancelled Acquire does before it returns; the rest is done in the background.
	leaveTimeout = 50 * time.Millisecond
)

// A Backend is one client of a directory of locks. It implements backend.Backend.
type Backend struct {
	store  *store
	leases *backend.Leases
	inbox  *inbox

	mu       sync.Mutex
	closed   bool
	done     chan struct{}  // closed by Close
	underway sync.WaitGroup // calls of Acquire
}

var _ backend.Backend = (*Backend)(nil)

func newBackend(s *store) *Backend {
	b := &Backend{store: s, inbox: &inbox{store: s}, done: make(chan struct{})}
	b.leases = backend.NewLeases(requests{b}, requestTimeout)
	return b
}

// Guarantees implements backend.Backend.
func (b *Backend) Guarantees() backend.Guarantees { return guarantees }

// Inspect implements backend.Backend. It takes no lock.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := backend.ValidateKey(key); err != nil {
		return backend.Holder{}, err
	}
	if b.leases.Closed() {
		return backend.Holder{}, backend.ErrClosed
	}
	if err := backend.ContextError(ctx, nil); err != nil {
		return backend.Holder{}, err
	}
	r, now, ok, err := b.store.peek(key)
	if err == nil && !ok {
		err = b.store.update(ctx, key, false, func(rec *record, at int64) (bool, error) {
			r, now = *rec, at
			return false, nil
		})
		if errors.Is(err, errAbsent) {
			return backend.Holder{}, nil
		}
	}
	if err != nil {
		return backend.Holder{}, orContext(ctx, err)
	}
	return r.holder(now), nil
}

func (r *record) holder(now int64) backend.Holder {
	if r.owner == "" {
		return backend.Holder{}
	}
	return backend.Holder{
		Owner: r.owner, Token: r.token, TTL: time.Duration(r.expires - now), Waiters: len(r.queue),
	}
}

// next is who gets a free key that is kept for the first in the queue.
func (r *record) next(now int64) backend.Holder {
	if r.owner != "" || len(r.queue) == 0 {
		return r.holder(now)
	}
	return backend.Holder{
		Owner: r.queue[0].owner, TTL: max(time.Duration(r.claimBy-now), 0), Waiters: len(r.queue) - 1,
	}
}

// Close implements backend.Backend.
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	close(b.done)
	b.mu.Unlock()
	b.leases.Close()
	b.underway.Wait() // they return at once: see leaveTimeout
	b.inbox.close()
	return nil
}

// enter begins a call of Acquire, unless the Backend is closed.
func (b *Backend) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.underway.Add(1)
	return true
}

// requests are what backend.Leases asks of the store.
type requests struct{ *Backend }

// RenewLease implements backend.Requests.
func (b requests) RenewLease(ctx context.Context, l *backend.Life, ttl time.Duration) (time.Duration, error) {
	err := b.store.update(ctx, l.Key(), false, func(r *record, now int64) (bool, error) {
		if r.owner != l.Owner() {
			return false, backend.ErrLost
		}
		r.expires = now + int64(ttl)
		return true, nil
	})
	if errors.Is(err, errAbsent) {
		err = backend.ErrLost
	}
	return ttl, err
}

// ReleaseLease implements backend.Requests.
func (b requests) ReleaseLease(ctx context.Context, l *backend.Life) error {
	return b.release(ctx, l.Key(), l.Owner())
}

// release removes the lease of owner, or its place in the queue, and tells the next waiter.
func (b *Backend) release(ctx context.Context, key, owner string) error {
	post := messages{inbox: b.inbox}
	removed := false // removed stays true if the removal has to be done again
	err := b.store.update(ctx, key, false, func(r *record, now int64) (bool, error) {
		post.drop()
		there := r.leave(owner)
		if r.owner == owner {
			r.free()
			there = true
		}
		removed = removed || there
		told := r.offer("", now, &post)
		return there || told, nil
	})
	if errors.Is(err, errAbsent) {
		err = nil
	}
	if err != nil {
		post.drop()
		return err
	}
	point("unlocked")
	post.send()
	if !removed {
		return backend.ErrLost
	}
	return nil
}

// orContext is ctx's error if it has ended, else err.
func orContext(ctx context.Context, err error) error {
	if cerr := backend.ContextError(ctx, err); cerr != nil {
		return cerr
	}
	return err
}
