package kit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
)

func nothing(context.Context) error { return nil }

func TestCallRefusesInOneOrder(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		called := func(context.Context) error { t.Error("called"); return nil }
		wantErr(t, "invalid under an ended context", s.Call(ended, backend.ErrInvalid, called), backend.ErrInvalid)
		wantErr(t, "under an ended context", s.Call(ended, nil, called), context.Canceled)
		wantErr(t, "call", s.Call(t.Context(), nil, nothing), nil)
		s.Close()
		wantErr(t, "after Close", s.Call(t.Context(), nil, called), backend.ErrClosed)
		wantErr(t, "enter after Close", s.Enter(t.Context(), nil), backend.ErrClosed)
		wantErr(t, "invalid after Close", s.Call(t.Context(), backend.ErrInvalid, called), backend.ErrInvalid)
		if s.Go(func(context.Context) { t.Error("ran") }) {
			t.Error("Go runs after Close")
		}
	})
}

func TestCallErrors(t *testing.T) {
	dial := fmt.Errorf("dial: %w", context.DeadlineExceeded)
	held := &backend.HeldError{}
	for _, test := range []struct {
		err                error
		open, ended, close error
	}{
		{nil, nil, nil, nil},
		{errNet, errNet, context.Canceled, backend.ErrClosed},
		{dial, backend.ErrUnavailable, context.Canceled, backend.ErrClosed},
		{held, held, held, held},
		{backend.ErrLost, backend.ErrLost, backend.ErrLost, backend.ErrLost},
		{backend.ErrUnsupported, backend.ErrUnsupported, backend.ErrUnsupported, backend.ErrUnsupported},
		// a time limit of the store itself
		{fmt.Errorf("%w: %w", held, context.DeadlineExceeded), backend.ErrUnavailable, context.Canceled, backend.ErrClosed},
	} {
		f := func(context.Context) error { return test.err }
		bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
			wantErr(t, fmt.Sprint("open: ", test.err), s.Call(t.Context(), nil, f), test.open)
			ctx, cancel := context.WithCancel(t.Context())
			err := s.Call(ctx, nil, func(ctx context.Context) error { cancel(); return f(ctx) })
			wantErr(t, fmt.Sprint("ended: ", test.err), err, test.ended)
			var closing sync.WaitGroup
			err = s.Call(t.Context(), nil, func(ctx context.Context) error {
				closing.Go(func() { s.Close() })
				<-ctx.Done()
				return f(ctx)
			})
			closing.Wait()
			wantErr(t, fmt.Sprint("closing: ", test.err), err, test.close)
			if IsContextError(err) {
				t.Errorf("closing: %v is the error of a context", err)
			}
		})
	}
}

// If a method fails, Call returns no value: not even a nil pointer in an interface.
func TestCallReturnsNoValueWithAnError(t *testing.T) {
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		life := new(Life)
		for _, want := range []error{nil, errNet} {
			l, err := Call(t.Context(), s, nil, func(context.Context) (backend.Lease, error) { return life, want })
			if !errors.Is(err, want) || (l == nil) != (want != nil) {
				t.Errorf("%v, %v, want %v", l, err, want)
			}
		}
	})
}

// The context of a call has the values and the end of its caller's context, and so does a context derived from it.
func TestCallContext(t *testing.T) {
	type key struct{}
	bubble(t, new(fakeStore), func(t *testing.T, s *Leases) {
		for _, derived := range []bool{false, true} {
			parent, cancel := context.WithTimeoutCause(context.WithValue(t.Context(), key{}, "v"), time.Second, errNet)
			var call context.Context
			_ = s.Call(parent, nil, func(ctx context.Context) error {
				call = ctx
				if derived {
					var stop context.CancelFunc
					ctx, stop = context.WithCancel(ctx)
					defer stop()
				}
				if d, ok := ctx.Deadline(); !ok || time.Until(d) != time.Second || ctx.Value(key{}) != "v" || ctx.Err() != nil {
					t.Errorf("deadline %v %v, value %v, error %v", d, ok, ctx.Value(key{}), ctx.Err())
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if !errors.Is(ctx.Err(), context.DeadlineExceeded) || context.Cause(ctx) != errNet {
					t.Errorf("ended with %v, cause %v", ctx.Err(), context.Cause(ctx))
				}
				<-ctx.Done()
				return nil
			})
			cancel()
			if call.Err() == nil || call.Value(key{}) != "v" {
				t.Errorf("after the call: error %v, value %v", call.Err(), call.Value(key{}))
			}
			parent = context.WithValue(t.Context(), key{}, "v")
			_ = s.Call(parent, nil, func(ctx context.Context) error { call = ctx; return nil })
			<-call.Done()
			if call.Err() == nil || call.Value(key{}) != "v" {
				t.Errorf("after a short call: error %v, value %v", call.Err(), call.Value(key{}))
			}
		}
	})
}

// Close ends the contexts of calls at once, and the context of background work after a second. It waits at most one
// more second for work that ignores its context.
func TestCloseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewLeases(new(fakeStore), requestTimeout)
		l := grant(t, s, time.Minute)
		start := time.Now()
		s.Go(func(ctx context.Context) {
			<-ctx.Done()
			if got := time.Since(start); got != closeGrace {
				t.Errorf("background work is cancelled after %v", got)
			}
			if s.Go(func(context.Context) {}) {
				t.Error("more background work begins")
			}
		})
		hung := make(chan struct{})
		go func() {
			_ = s.Call(context.Background(), nil, func(ctx context.Context) error {
				<-ctx.Done()
				if time.Since(start) != 0 || !isLost(l) {
					t.Errorf("calls end after %v; the lease is lost: %v", time.Since(start), isLost(l))
				}
				<-hung
				return nil
			})
		}()
		synctest.Wait()
		s.Close()
		if got := time.Since(start); got != 2*closeGrace {
			t.Errorf("Close took %v", got)
		}
		close(hung)
		s.Drain()
		if got := time.Since(start); got != 2*closeGrace {
			t.Errorf("Drain took %v more", got-2*closeGrace)
		}
	})
}

// A call either is refused, or ends before Close returns.
func TestCloseMeetsCalls(t *testing.T) {
	for range 200 {
		s := NewLeases(new(fakeStore), requestTimeout)
		var inside atomic.Int64
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				for s.Call(context.Background(), nil,
					func(context.Context) error { inside.Add(1); inside.Add(-1); return nil }) == nil {
				}
			})
		}
		s.Close()
		if n := inside.Load(); n != 0 || s.underway.Load() < 0 {
			t.Fatalf("%d calls go on after Close", n)
		}
		callers.Wait()
	}
}

func TestAcquireCleansUp(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		cleans bool
	}{
		"refused":     {&backend.HeldError{}, false},
		"invalid":     {backend.ErrInvalid, false},
		"unsupported": {backend.ErrUnsupported, false},
		"unknown":     {errNet, true},
		"late":        {backend.ErrLost, true}, // Grant itself begins the clean-up
	} {
		for _, own := range []bool{false, true} {
			f := &fakeStore{release: script(backend.ErrLost)}
			bubble(t, f, func(t *testing.T, s *Leases) {
				w := Waiter{Try: func(context.Context) (backend.Lease, error) { return (*Life)(nil), test.err }}
				cleaned := false
				if own {
					w.CleanUp = func() { cleaned = true }
				}
				l, err := s.Acquire(t.Context(), backend.Request{Key: "k", Owner: "o", TTL: time.Minute}, w)
				wantErr(t, name, err, test.err)
				if l != nil {
					t.Errorf("%s: lease %v", name, l)
				}
				synctest.Wait()
				if cleaned != own || (f.releases.Load() > 0) != (!own && test.cleans && test.err != backend.ErrLost) {
					t.Errorf("%s, clean-up of its own %v: cleaned %v, %d releases", name, own, cleaned, f.releases.Load())
				}
			})
		}
	}
}

// If the last request of a wait was answered, one removal is final. If the context ends during a request, the removal
// is repeated.
func TestAcquireCleansUpAfterWait(t *testing.T) {
	for _, answered := range []bool{false, true} {
		f := &fakeStore{}
		bubble(t, f, func(t *testing.T, s *Leases) {
			tries := 0
			w := Waiter{Pause: fixed, Try: func(ctx context.Context) (backend.Lease, error) {
				if tries++; tries > 5 && !answered {
					return nil, hang(ctx)
				}
				return nil, backend.ErrHeld
			}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := s.Acquire(ctx, backend.Request{Key: "k", Owner: "o", TTL: time.Minute, Wait: true}, w)
			wantErr(t, "wait", err, backend.ErrHeld)
			wantErr(t, "wait", err, context.DeadlineExceeded)
			time.Sleep(time.Hour)
			if once := f.releases.Load() == 1; once != answered || f.releases.Load() == 0 {
				t.Errorf("answered is %v: %d requests", answered, f.releases.Load())
			}
		})
	}
}

// If the last request of a wait was refused for good, an earlier one may still have left something.
func TestAcquireCleansUpAfterRefusal(t *testing.T) {
	for _, test := range []struct {
		earlier  []error
		removals int64
	}{
		{nil, 0},
		{[]error{backend.ErrHeld}, 1},
		{[]error{backend.ErrHeld, errNet}, 2}, // the unanswered request may arrive after the first removal
	} {
		f := &fakeStore{release: script(nil, backend.ErrLost)}
		bubble(t, f, func(t *testing.T, s *Leases) {
			try := script(append(test.earlier, backend.ErrUnsupported)...)
			w := Waiter{Pause: fixed, Try: func(ctx context.Context) (backend.Lease, error) { return nil, try(ctx) }}
			_, err := s.Acquire(t.Context(), backend.Request{Key: "k", Owner: "o", TTL: time.Minute, Wait: true}, w)
			wantErr(t, "wait", err, backend.ErrUnsupported)
			time.Sleep(time.Hour) // sleeps: in fake time
			if n := f.releases.Load(); n < test.removals || n > 0 && test.removals == 0 {
				t.Errorf("after %v: %d removals, want at least %d", test.earlier, n, test.removals)
			}
		})
	}
}

// A refused waiter may have a place in the store's queue, which is removed also if the first wait fails for good.
func TestAcquireCleansUpAfterSleep(t *testing.T) {
	for name, w := range map[string]Waiter{
		"in Sleep": {
			Try:   func(context.Context) (backend.Lease, error) { return nil, backend.ErrHeld },
			Sleep: func(context.Context) error { return backend.ErrUnsupported },
		},
		"in Try": {
			Try:     func(context.Context) (backend.Lease, error) { return nil, backend.ErrUnsupported },
			Refused: func() error { return backend.ErrHeld },
		},
	} {
		f := &fakeStore{}
		bubble(t, f, func(t *testing.T, s *Leases) {
			_, err := s.Acquire(t.Context(), backend.Request{Key: "k", Owner: "o", TTL: time.Minute, Wait: true}, w)
			wantErr(t, name, err, backend.ErrUnsupported)
			synctest.Wait()
			if n := f.releases.Load(); n != 1 {
				t.Errorf("%s: %d removals", name, n)
			}
		})
	}
}

func TestAcquireEndsWithClose(t *testing.T) {
	f := &fakeStore{rounds: backend.Guarantees{MaxTTL: time.Hour}}
	bubble(t, f, func(t *testing.T, s *Leases) {
		w := Waiter{Pause: fixed, Try: func(context.Context) (backend.Lease, error) { return nil, backend.ErrHeld }}
		_, err := s.Acquire(t.Context(), backend.Request{Key: "k", Owner: "o", TTL: time.Hour + 1}, w)
		wantErr(t, "a ttl over MaxTTL", err, backend.ErrInvalid)
		start := time.Now()
		closed := make(chan bool)
		time.AfterFunc(time.Minute, func() { closed <- s.Close() })
		_, err = s.Acquire(t.Context(), backend.Request{Key: "k", Owner: "o", TTL: time.Hour, Wait: true}, w)
		wantErr(t, "wait until Close", err, backend.ErrClosed)
		if took := time.Since(start); took != time.Minute {
			t.Errorf("it took %v", took)
		}
		<-closed
	})
}
