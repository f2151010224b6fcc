package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/memory"
)

// An early store notices the end of a wait by the clock, before the context's own timer has fired.
type early struct{ backend.Backend }

func (early) Acquire(ctx context.Context, _ backend.Request) (backend.Lease, error) {
	for !kit.Ended(ctx) {
	}
	return nil, kit.ContextError(ctx, nil)
}

// If the limit of WithWait passes and the store has not answered, the error is ErrUnavailable, no matter whether the
// store or the context's timer notices first. If the caller's context ends, the error is the context's.
func TestWaitEndsByClock(t *testing.T) {
	l, err := lock.New(early{memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const wait = 5 * time.Millisecond
	for range 50 {
		if _, err := l.Acquire(context.Background(), "k", lock.WithWait(wait)); !errors.Is(err, lock.ErrUnavailable) {
			t.Fatalf("the wait is over: %v, want ErrUnavailable", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		_, err := l.Acquire(ctx, "k", lock.WithWait(time.Minute))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrHeld) {
			t.Fatalf("the context is over: %v, want its error", err)
		}
	}
}

// A lingering store returns from Acquire a second after the end of the request's context.
type lingering struct{ backend.Backend }

func (lingering) Acquire(ctx context.Context, _ backend.Request) (backend.Lease, error) {
	<-ctx.Done()
	time.Sleep(time.Second) // sleeps: in fake time
	return nil, kit.ContextError(ctx, nil)
}

// If the caller cancels its context after the limit of WithWait has passed, the error is that of the limit. It does not
// match DeadlineExceeded, because the caller's context has no deadline.
func TestCancelAfterTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locker(t, lingering{memory.New()})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, cancel)
		_, err := l.Acquire(ctx, "k", lock.WithWait(time.Second))
		matches(t, "cancelled after the limit", err, lock.ErrUnavailable)
	})
}

// A silentStore answers no Acquire. When the request's context ends, the error contains last, as the last error before.
type silentStore struct {
	backend.Backend
	last    error // the last error of Acquire
	answers bool  // Inspect answers
}

func (m silentStore) Acquire(ctx context.Context, _ backend.Request) (backend.Lease, error) {
	<-ctx.Done()
	return nil, kit.ContextError(ctx, m.last)
}

func (m silentStore) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if m.answers {
		return m.Backend.Inspect(ctx, key)
	}
	<-ctx.Done()
	return backend.Holder{}, kit.ContextError(ctx, nil)
}

var (
	errRefused = errors.New("connection refused")
	someone    = &backend.HeldError{Holder: backend.Holder{Owner: "someone", Token: 1}}
)

// matches fails the test unless err matches all of want, and none of the other errors that can end a wait.
func matches(t *testing.T, what string, err error, want ...error) {
	t.Helper()
	for _, e := range []error{lock.ErrHeld, lock.ErrUnavailable, context.DeadlineExceeded, context.Canceled, errRefused} {
		wanted := false
		for _, w := range want {
			wanted = wanted || w == e
		}
		if errors.Is(err, e) != wanted {
			t.Errorf("%s: error %q; matches %q: %v, want %v", what, err, e, !wanted, wanted)
		}
	}
}

// A wait ends with ErrHeld only if the store has reported that the key is busy. If the store has not answered, the wait
// ends with ErrUnavailable.
func TestWaitTellsBusyFromSilent(t *testing.T) {
	for _, c := range []struct {
		name string
		last error
		want []error // after the limit of WithWait
		also []error // after the end of a context, besides the context's error
	}{
		{"silent", nil, []error{lock.ErrUnavailable}, nil},
		{"unreachable", errRefused, []error{lock.ErrUnavailable, errRefused}, []error{errRefused}},
		{"busy", someone, []error{lock.ErrHeld}, []error{lock.ErrHeld}},
		{"busy, holder unknown", backend.ErrHeld, []error{lock.ErrHeld}, []error{lock.ErrHeld}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := locker(t, silentStore{Backend: memory.New(), last: c.last})
				_, err := l.Acquire(t.Context(), "k", lock.WithWait(time.Second))
				matches(t, "limit", err, c.want...)
				held := (*lock.HeldError)(nil)
				if is := errors.As(err, &held); is != (c.last == error(someone)) || is && held.Holder.Token != 1<<8 {
					t.Errorf("%v: the error says the holder: %v", err, is)
				}
				if !strings.Contains(err.Error(), "within 1s") {
					t.Errorf("%v does not tell for how long", err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, err = l.Acquire(ctx, "k")
				cancel()
				matches(t, "deadline", err, append(c.also, context.DeadlineExceeded)...)
				_, err = l.Acquire(ctx, "k", lock.WithWait(time.Minute))
				matches(t, "ended context", err, context.DeadlineExceeded)
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				_, err = l.Acquire(ctx, "k", lock.WithWait(time.Minute))
				matches(t, "cancelled", err, append(c.also, context.Canceled)...)
			})
		})
	}
}

// Inside a process, a waiter behind a holder gets ErrHeld. Behind a goroutine whose request the store does not answer,
// a waiter gets ErrHeld only if Inspect answers.
func TestLocalWaitTellsBusyFromSilent(t *testing.T) {
	for _, answers := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.NewStore()
			l := locker(t, silentStore{Backend: store.Client(), answers: answers})
			ctx, stop := context.WithCancel(t.Context())
			asking := make(chan struct{})
			go func() {
				defer close(asking)
				_, err := l.Acquire(ctx, "k")
				wantErr(t, err, context.Canceled)
			}()
			synctest.Wait()
			want, also := lock.ErrUnavailable, []error{context.DeadlineExceeded}
			if answers {
				want, also = lock.ErrHeld, nil
			}
			for range 2 {
				_, err := l.Acquire(t.Context(), "k", lock.WithWait(time.Second))
				matches(t, "queued behind who asks", err, want)
			}
			tctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := l.TryAcquire(tctx, "k")
			cancel()
			if answers {
				also = []error{lock.ErrHeld}
			}
			matches(t, "try behind who asks", err, also...)
			stop()
			<-asking
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithHandoff(0))
		lease := acquire(t, l, "k")
		_, err := l.Acquire(t.Context(), "k", lock.WithWait(time.Second))
		matches(t, "queued behind a holder", err, lock.ErrHeld)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err = l.Acquire(ctx, "k")
		cancel()
		matches(t, "queued behind a holder, deadline", err, lock.ErrHeld, context.DeadlineExceeded)

		// The holder releases the key after the store has stopped answering. The key was busy before, so the error is
		// ErrHeld.
		f.set(func() { f.acquire = func(ctx context.Context, _ backend.Request) error { return hang(ctx) } })
		time.AfterFunc(900*time.Millisecond, func() { release(t, lease) })
		_, err = l.Acquire(t.Context(), "k", lock.WithWait(time.Second))
		matches(t, "queued behind a holder that went", err, lock.ErrHeld)
	})
}

// The end of a context with a deadline matches ErrHeld if the key was busy, also for a waiter behind a goroutine of the
// process that waits at the store.
func TestDeadlineBehindWaiterTellsBusy(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		held := acquire(t, b, "k")
		ctx, stop := context.WithCancel(t.Context())
		waiting := make(chan error)
		go func() {
			_, err := a.Acquire(ctx, "k")
			waiting <- err
		}()
		synctest.Wait()
		for _, opts := range [][]lock.AcquireOption{nil, {lock.WithWait(time.Minute)}} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err := a.Acquire(ctx, "k", opts...)
			cancel()
			matches(t, "queued behind a waiter", err, lock.ErrHeld, context.DeadlineExceeded)
		}
		stop()
		wantErr(t, <-waiting, context.Canceled)
		release(t, held)
	})
}
