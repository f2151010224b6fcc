package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/leak"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// bubble runs f in a synctest bubble, with two Lockers on one store.
func bubble(t *testing.T, f func(t *testing.T, a, b *lock.Locker), opts ...lock.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		a, b := locker(t, store.Client(), opts...), locker(t, store.Client(), opts...)
		f(t, a, b)
	})
}

func locker(t *testing.T, b backend.Backend, opts ...lock.Option) *lock.Locker {
	t.Helper()
	l, err := lock.New(b, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func acquire(t *testing.T, l *lock.Locker, key string, opts ...lock.AcquireOption) *lock.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func release(t *testing.T, lease *lock.Lease) {
	t.Helper()
	if err := lease.Release(context.Background()); err != nil {
		t.Error(err)
	}
}

// free fails the test unless l can acquire key at once.
func free(t *testing.T, l *lock.Locker, key string) {
	t.Helper()
	lease, err := l.TryAcquire(t.Context(), key)
	if err != nil {
		t.Errorf("key is not free: %v", err)
		return
	}
	release(t, lease)
}

// busy fails the test unless key is busy for l.
func busy(t *testing.T, l *lock.Locker, key string) {
	t.Helper()
	lease, err := l.TryAcquire(t.Context(), key)
	if err == nil {
		release(t, lease)
	}
	if !errors.Is(err, lock.ErrHeld) {
		t.Errorf("try on a busy key: %v, want ErrHeld", err)
	}
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}

func lost(l *lock.Lease) bool {
	select {
	case <-l.Lost():
		return true
	default:
		return false
	}
}

// A faulty store counts requests, and calls a function of the test before each. If the function returns an error, the
// request fails with that error.
type faulty struct {
	backend.Backend
	mu       sync.Mutex
	acquire  func(ctx context.Context, r backend.Request) error
	renew    func(ctx context.Context) error
	release  func(ctx context.Context) error
	lives    map[string]*kit.Life // the latest lease granted on each key
	acquires int
	renewals int
	releases int
}

func newFaulty(b backend.Backend) *faulty {
	return &faulty{Backend: b, lives: make(map[string]*kit.Life)}
}

func (f *faulty) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	f.mu.Lock()
	f.acquires++
	fault := f.acquire
	f.mu.Unlock()
	if fault != nil {
		if err := fault(ctx, r); err != nil {
			return nil, err
		}
	}
	l, err := f.Backend.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	life := l.(*kit.Life)
	f.set(func() { f.lives[r.Key] = life })
	return &faultyLease{life, f}, nil
}

func (f *faulty) counts() (acquires, renewals, releases int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.acquires, f.renewals, f.releases
}

func (f *faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

type faultyLease struct {
	*kit.Life
	store *faulty
}

func (l *faultyLease) Renew(ctx context.Context, ttl time.Duration) error {
	l.store.mu.Lock()
	l.store.renewals++
	fault := l.store.renew
	l.store.mu.Unlock()
	if fault != nil {
		if err := fault(ctx); err != nil {
			return err
		}
	}
	return l.Life.Renew(ctx, ttl)
}

func (l *faultyLease) Release(ctx context.Context) error {
	l.store.mu.Lock()
	l.store.releases++
	fault := l.store.release
	l.store.mu.Unlock()
	if fault != nil {
		if err := fault(ctx); err != nil {
			return err
		}
	}
	return l.Life.Release(ctx)
}

// hang blocks until ctx ends, like a request that gets no reply.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
