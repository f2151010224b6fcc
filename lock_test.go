package lock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

func TestAcquireAndRelease(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		lease := acquire(t, a, "k")
		if lease.Key() != "k" || lease.Owner() == "" || lease.Token() == 0 || lease.Err() != nil {
			t.Errorf("lease %q by %q, token %d, err %v", lease.Key(), lease.Owner(), lease.Token(), lease.Err())
		}
		busy(t, a, "k")
		busy(t, b, "k")
		release(t, lease)
		release(t, lease) // twice is nil
		wantErr(t, lease.Err(), lock.ErrReleased)
		if lost(lease) {
			t.Error("Lost is closed after a clean release")
		}
		free(t, a, "k")
		next := acquire(t, b, "k")
		if next.Token() <= lease.Token() {
			t.Errorf("token %d after %d", next.Token(), lease.Token())
		}
		wantErr(t, lease.Renew(t.Context(), time.Hour), lock.ErrReleased)
		release(t, lease)
		busy(t, a, "k") // a stale release does not touch the new holder
		release(t, next)
	})
}

func TestHeldErrorNamesTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		lease := acquire(t, a, "k", lock.WithTTL(time.Minute))
		for _, l := range []*lock.Locker{a, b} {
			_, err := l.TryAcquire(t.Context(), "k")
			var held *lock.HeldError
			if !errors.As(err, &held) {
				t.Fatalf("%v is not a HeldError", err)
			}
			h := held.Holder
			if h.Owner != lease.Owner() || h.Token != lease.Token() || h.TTL <= 0 || h.TTL > time.Minute {
				t.Errorf("holder %+v, want owner %s and token %d", h, lease.Owner(), lease.Token())
			}
		}
		h, err := b.Ops().Inspect(t.Context(), "k")
		if err != nil || h.Owner != lease.Owner() || h.Token != lease.Token() {
			t.Errorf("inspect: %+v, %v", h, err)
		}
		release(t, lease)
		if h, err := b.Ops().Inspect(t.Context(), "k"); err != nil || h.Held() {
			t.Errorf("inspect of a free key: %+v, %v", h, err)
		}
	})
}

func TestWaiterGetsTheKey(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		first := acquire(t, a, "k")
		got := make(chan *lock.Lease)
		go func() { got <- acquire(t, b, "k") }()
		synctest.Wait()
		release(t, first)
		release(t, <-got)
	})
}

func TestEndedContextAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		_, err := l.Acquire(ctx, "k")
		wantErr(t, err, context.Canceled)
		wantErr(t, err, why)
		if n, _, _ := f.counts(); n != 0 {
			t.Errorf("%d requests with an ended context", n)
		}
	})
}

func TestWithWait(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		lease := acquire(t, a, "k")
		for _, l := range []*lock.Locker{a, b} { // waiting at the gate, and at the store
			start := time.Now()
			_, err := l.Acquire(t.Context(), "k", lock.WithWait(3*time.Second))
			wantErr(t, err, lock.ErrHeld)
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v matches the context's error, but the context lives", err)
			}
			if d := time.Since(start); d != 3*time.Second {
				t.Errorf("waited %v", d)
			}
			_, err = l.Acquire(t.Context(), "k", lock.WithWait(0))
			wantErr(t, err, lock.ErrHeld)
		}
		release(t, lease)
		// The wait does not limit the lease.
		lease = acquire(t, a, "k", lock.WithWait(time.Second))
		time.Sleep(time.Hour)
		if err := lease.Context(t.Context()).Err(); err != nil {
			t.Error(err)
		}
		release(t, lease)
	})
}

// If the store fails before it has reported the key as busy, Acquire returns the store's error. The next attempt can
// pass the gate.
func TestStoreErrorsPassThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f)
		broken := errors.New("connection refused")
		f.acquire = func(context.Context, backend.Request) error { return broken }
		_, err := l.Acquire(t.Context(), "k")
		wantErr(t, err, broken)
		var e *lock.Error
		if !errors.As(err, &e) || e.Op != "acquire" || e.Key != "k" {
			t.Errorf("%#v", err)
		}
		f.acquire = nil
		free(t, l, "k") // the attempt has left the gate
	})
}

// If the store panics, other goroutines can still acquire the key, and Shutdown does not wait for the failed call.
func TestPanicLeavesTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f)
		f.set(func() { f.acquire = func(context.Context, backend.Request) error { panic("boom") } })
		func() {
			defer func() { _ = recover() }()
			_, _ = l.Acquire(t.Context(), "k")
		}()
		f.set(func() { f.acquire = nil })
		free(t, l, "k")
		if err := l.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A panickyResumer panics in Resume.
type panickyResumer struct{ backend.Backend }

func (panickyResumer) Resume(context.Context, backend.Request) (backend.Lease, error) { panic("boom") }

// If the store panics in Resume, Shutdown does not wait for the failed call.
func TestPanicInResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locker(t, panickyResumer{memory.New()})
		func() {
			defer func() { _ = recover() }()
			_, _ = l.Resume(t.Context(), "k", "me")
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
}

// If a grant arrives after its own deadline, Acquire makes another request, up to a limit. TryAcquire does not.
func TestLateGrantIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f)
		late := 2
		f.acquire = func(context.Context, backend.Request) error {
			if late--; late >= 0 {
				return fmt.Errorf("%w: too late", lock.ErrLost)
			}
			return nil
		}
		release(t, acquire(t, l, "k"))
		late = 1 << 30
		_, err := l.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrUnavailable)
		late = 1
		_, err = l.TryAcquire(t.Context(), "k")
		wantErr(t, err, lock.ErrUnavailable)
	})
}

func TestDo(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		mine := errors.New("mine")
		err := a.Do(t.Context(), "k", func(ctx context.Context, l *lock.Lease) error {
			busy(t, b, "k")
			if ctx.Err() != nil || l.Token() == 0 {
				t.Error("no live lease in Do")
			}
			return mine
		})
		wantErr(t, err, mine)
		free(t, b, "k")

		func() {
			defer func() {
				if recover() != "boom" {
					t.Error("the panic did not come through")
				}
			}()
			_ = a.Do(t.Context(), "k", func(context.Context, *lock.Lease) error { panic("boom") })
		}()
		free(t, b, "k")

		err = a.Do(t.Context(), "k", func(ctx context.Context, _ *lock.Lease) error {
			<-ctx.Done()
			wantErr(t, context.Cause(ctx), lock.ErrLost)
			return mine
		}, lock.WithoutRenewal())
		wantErr(t, err, mine)
		wantErr(t, err, lock.ErrLost)
		time.Sleep(time.Second) // the deadline is a little earlier than the store's expiry
		free(t, b, "k")
	})
}

// Do returns f's own error if the release succeeds, and releases the key even if f calls runtime.Goexit.
func TestDoIsTransparent(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		err := a.Do(t.Context(), "k", func(context.Context, *lock.Lease) error { return io.EOF })
		if err != io.EOF {
			t.Errorf("%#v, want f's own error", err)
		}
		err = a.Do(t.Context(), "k", func(ctx context.Context, l *lock.Lease) error { return l.Release(ctx) })
		if err != nil {
			t.Error(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = a.Do(t.Context(), "k", func(context.Context, *lock.Lease) error {
				runtime.Goexit()
				return nil
			})
		}()
		<-done
		free(t, b, "k")
	})
}

// The lease's context ends before the store gets the request to release the lease, or to renew it for a hand-off.
func TestContextEndsBeforeTheKeyIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithTTL(time.Second))
		lease := acquire(t, l, "k")
		ctx := lease.Context(t.Context())
		f.release = func(context.Context) error {
			if ctx.Err() == nil {
				t.Error("the context lives while the store is asked to release")
			}
			return nil
		}
		release(t, lease)

		lease = acquire(t, l, "k", lock.WithoutRenewal())
		ctx = lease.Context(t.Context())
		f.renew = f.release
		got := queue(t, l, 1)
		time.Sleep(600 * time.Millisecond) // so that the hand-off renews
		release(t, lease)
		release(t, <-got)
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		a, b := locker(t, store.Client()), locker(t, store.Client())
		lease := acquire(t, a, "k", lock.WithTTL(10*time.Second))
		ctx := lease.Context(t.Context())
		waiting := make(chan error, 3)
		other := acquire(t, b, "other")
		for _, key := range []string{"k", "k", "other"} { // at the gate, and at the store
			go func() {
				_, err := a.Acquire(t.Context(), key)
				waiting <- err
			}()
		}
		synctest.Wait()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		for range 3 {
			wantErr(t, <-waiting, lock.ErrClosed)
		}
		if !lost(lease) {
			t.Error("Close does not tell the holder")
		}
		wantErr(t, context.Cause(ctx), lock.ErrClosed)
		wantErr(t, lease.Renew(t.Context(), time.Second), lock.ErrClosed)
		wantErr(t, lease.Release(t.Context()), lock.ErrClosed)
		_, err := a.Acquire(t.Context(), "k")
		wantErr(t, err, lock.ErrClosed)
		_, err = a.TryAcquire(t.Context(), "k2")
		wantErr(t, err, lock.ErrClosed)
		_, err = a.Ops().Inspect(t.Context(), "k")
		wantErr(t, err, lock.ErrClosed)
		busy(t, b, "k") // the holder may not have noticed yet
		time.Sleep(11 * time.Second)
		free(t, b, "k")
		release(t, other)
	})
}

func TestBadInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithPrefix("app:"))
		for name, try := range map[string]func() (*lock.Lease, error){
			"empty key":    func() (*lock.Lease, error) { return l.Acquire(t.Context(), "") },
			"long key":     func() (*lock.Lease, error) { return l.Acquire(t.Context(), strings.Repeat("k", 1021)) },
			"ttl 0":        func() (*lock.Lease, error) { return l.Acquire(t.Context(), "k", lock.WithTTL(0)) },
			"negative ttl": func() (*lock.Lease, error) { return l.TryAcquire(t.Context(), "k", lock.WithTTL(-1)) },
			"negative max": func() (*lock.Lease, error) { return l.Acquire(t.Context(), "k", lock.WithMaxHold(-1)) },
			"negative min": func() (*lock.Lease, error) { return l.Acquire(t.Context(), "k", lock.WithMinHold(-1)) },
			"long min hold": func() (*lock.Lease, error) {
				return l.Acquire(t.Context(), "k", lock.WithMinHold(backend.MaxTTL+1))
			},
			"negative wait": func() (*lock.Lease, error) { return l.Acquire(t.Context(), "k", lock.WithWait(-1)) },
			"min over max": func() (*lock.Lease, error) {
				return l.Acquire(t.Context(), "k", lock.WithMinHold(time.Hour), lock.WithMaxHold(time.Minute))
			},
		} {
			if _, err := try(); !errors.Is(err, lock.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", name, err)
			}
		}
		_, err := l.Ops().Inspect(t.Context(), "")
		wantErr(t, err, lock.ErrInvalid)
		if n, _, _ := f.counts(); n != 0 {
			t.Errorf("%d requests", n)
		}
		lease := acquire(t, l, strings.Repeat("k", 1020))
		wantErr(t, lease.Renew(t.Context(), 0), lock.ErrInvalid)
		release(t, lease)
	})
}

func TestNewWithoutBackend(t *testing.T) {
	_, err := lock.New(nil)
	wantErr(t, err, lock.ErrInvalid)
}

func TestPrefixKeepsApplicationsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		a, b := locker(t, store.Client(), lock.WithPrefix("a/")), locker(t, store.Client(), lock.WithPrefix("b/"))
		one, two := acquire(t, a, "k"), acquire(t, b, "k")
		if one.Key() != "a/k" {
			t.Errorf("key %q", one.Key())
		}
		release(t, one)
		release(t, two)
	})
}

// Errors name the whole key, with the Locker's prefix.
func TestErrorsNameTheWholeKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locker(t, memory.New(), lock.WithPrefix("app/"))
		lease := acquire(t, l, "k")
		_, held := l.TryAcquire(t.Context(), "k")
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		_, inspect := l.Ops().Inspect(canceled, "k")
		renew := lease.Renew(t.Context(), 0)
		release(t, lease)
		for _, err := range []error{held, inspect, renew, lease.Err()} {
			var e *lock.Error
			if !errors.As(err, &e) || e.Key != "app/k" || e.Backend != "memory" {
				t.Errorf("%v: %+v", err, e)
			}
		}
	})
}
