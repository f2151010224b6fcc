package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/memory"
)

// A lateStore calls acquire, which grants every lease too late.
type lateStore struct {
	backend.Backend
	acquire func(ctx context.Context, inner backend.Backend, r backend.Request) (backend.Lease, error)
}

func (s lateStore) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return s.acquire(ctx, s.Backend, r)
}

// If every grant arrives too late, Acquire returns ErrUnavailable or the context's error. It never returns ErrLost,
// because its caller had no lease to lose.
func TestAcquireIsNeverLost(t *testing.T) {
	const ttl = time.Second
	errLate := fmt.Errorf("%w: the grant arrived too late", backend.ErrLost)
	for name, acquire := range map[string]func(context.Context, backend.Backend, backend.Request) (backend.Lease, error){
		"error of the store": func(context.Context, backend.Backend, backend.Request) (backend.Lease, error) {
			return nil, errLate
		},
		"expired lease": func(ctx context.Context, inner backend.Backend, r backend.Request) (backend.Lease, error) {
			l, err := inner.Acquire(ctx, r)
			time.Sleep(2 * ttl) // sleeps: in fake time
			return l, err
		},
		"last error of a wait": func(ctx context.Context, _ backend.Backend, r backend.Request) (backend.Lease, error) {
			if !r.Wait {
				return nil, errLate
			}
			<-ctx.Done()
			return nil, kit.ContextError(ctx, errLate)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := locker(t, lateStore{memory.New(), acquire}, lock.WithTTL(ttl))
				check := func(what string, err, want error) {
					t.Helper()
					if errors.Is(err, lock.ErrLost) || !errors.Is(err, want) {
						t.Errorf("%s: %v (ErrLost: %v), want %v", what, err, errors.Is(err, lock.ErrLost), want)
					}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err := l.TryAcquire(ctx, "k")
				check("TryAcquire", err, lock.ErrUnavailable)
				_, err = l.Acquire(ctx, "k", lock.WithWait(time.Minute/2))
				check("Acquire with a limit", err, lock.ErrUnavailable)
				check("Do", l.Do(ctx, "k", nil, lock.WithWait(0)), lock.ErrUnavailable)
				_, err = l.Acquire(ctx, "k")
				want := lock.ErrUnavailable
				if ctx.Err() != nil {
					want = context.DeadlineExceeded
				}
				check("Acquire", err, want)
			})
		})
	}
}
