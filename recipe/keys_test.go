package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/recipe"
)

func TestSetIsSortedAndReleasedInReverse(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s, err := recipe.AcquireAll(t.Context(), w.locker(), []string{"b", "c", "a", "b"})
		if err != nil {
			t.Fatal(err)
		}
		w.wantEvents("acquire a", "acquire b", "acquire c")
		for _, key := range []string{"a", "b", "c"} {
			if l := s.Lease(key); l == nil || l.Key() != key || l.Token() == 0 {
				t.Errorf("lease of %s: %+v", key, l)
			}
		}
		if s.Lease("d") != nil || s.Lease("") != nil {
			t.Error("a lease of a key that was not asked for")
		}
		if s.Err() != nil || s.Context(t.Context()).Err() != nil {
			t.Errorf("%v, %v", s.Err(), s.Context(t.Context()).Err())
		}
		release(t, s)
		w.wantEvents("release c", "release b", "release a")
		wantErr(t, s.Err(), lock.ErrReleased)
		wantErr(t, context.Cause(s.Context(t.Context())), lock.ErrReleased)
		release(t, s)
	})
}

func TestTrySetIsAllOrNone(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		busy, err := w.locker().Acquire(t.Context(), "c")
		if err != nil {
			t.Fatal(err)
		}
		w.took()
		_, err = recipe.TryAcquireAll(t.Context(), w.locker(), []string{"d", "c", "b", "a"})
		var held *lock.HeldError
		if !errors.As(err, &held) || held.Holder.Owner != busy.Owner() {
			t.Errorf("%v, want ErrHeld with the holder of c", err)
		}
		w.wantEvents("acquire a", "acquire b", "release b", "release a")
		release(t, busy)
		for _, none := range [][]string{nil, {}} {
			_, err := recipe.TryAcquireAll(t.Context(), w.locker(), none)
			wantErr(t, err, lock.ErrInvalid)
		}
		_, err = recipe.TryAcquireAll(t.Context(), w.locker(), []string{"a", ""})
		wantErr(t, err, lock.ErrInvalid)
		w.free("a", "b", "c", "d")
	})
}

// If a release during a rollback has an unknown outcome, the error matches that of the release and the error that
// caused the rollback.
func TestSetRollbackFails(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		busy, err := w.locker().Acquire(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		outage := errors.New("outage")
		asked := 0
		w.fault = func(key string) error {
			if asked++; key == "a" && asked > 1 {
				return outage
			}
			return nil
		}
		_, err = recipe.TryAcquireAll(t.Context(), w.locker(), []string{"a", "b"})
		wantErr(t, err, lock.ErrHeld, outage)
		w.fault = nil
		release(t, busy)
		time.Sleep(2 * ttl)
		w.free("a", "b")
	})
}

// The context of a set ends when a lease is lost, and the cause names the key.
func TestSetLoss(t *testing.T) {
	for _, key := range []string{"a", "b", "c"} {
		t.Run(key, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				s, err := recipe.AcquireAll(t.Context(), w.locker(), []string{"a", "b", "c"})
				if err != nil {
					t.Fatal(err)
				}
				breakKey(t, w.locker(), key)
				<-s.Context(t.Context()).Done()
				for _, err := range []error{s.Err(), context.Cause(s.Context(t.Context()))} {
					var at *lock.Error
					if !errors.Is(err, lock.ErrLost) || !errors.As(err, &at) || at.Key != key {
						t.Errorf("%v, want the loss of %s", err, key)
					}
				}
				wantErr(t, s.Release(t.Context()), lock.ErrLost)
				w.free("a", "b", "c")
			})
		})
	}
}

func TestSetDeadlineIsTheEarliest(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s, err := recipe.AcquireAll(t.Context(), w.locker(), []string{"a", "b", "c"}, lock.WithoutRenewal())
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"a", "c"} {
			if err := s.Lease(key).Renew(t.Context(), time.Hour); err != nil {
				t.Error(err)
			}
		}
		if want := s.Lease("b").Deadline(); !s.Deadline().Equal(want) {
			t.Errorf("deadline %v, want that of b, %v", s.Deadline(), want)
		}
		time.Sleep(time.Until(s.Deadline()))
		wantErr(t, s.Err(), lock.ErrLost)
		<-s.Context(t.Context()).Done()
		wantErr(t, s.Release(t.Context()), lock.ErrLost)
	})
}

// waitForLast acquires c with l, and begins to acquire a, b and c with another Locker.
func waitForLast(t *testing.T, w *world, l *lock.Locker) (busy *lock.Lease, failed <-chan error) {
	t.Helper()
	busy, err := l.Acquire(t.Context(), "c")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := recipe.AcquireAll(t.Context(), w.locker(), []string{"a", "b", "c"})
		ended <- err
	}()
	return busy, ended
}

// The loss of a lease during the wait for another key ends the wait.
func TestSetLossDuringWait(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := w.locker()
		busy, failed := waitForLast(t, w, l)
		time.Sleep(5 * ttl)
		breakKey(t, l, "a")
		err := <-failed
		var at *lock.Error
		if !errors.Is(err, lock.ErrLost) || !errors.As(err, &at) || at.Key != "a" || errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the loss of a", err)
		}
		w.free("a", "b")
		release(t, busy)
	})
}

// A rollback after a loss also reports a release of unknown outcome.
func TestSetRollbackFailsAfterALoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := w.locker()
		busy, failed := waitForLast(t, w, l)
		waitBlocked()
		outage := errors.New("outage")
		w.mu.Lock()
		w.fault = func(key string) error {
			if key == "b" {
				return outage
			}
			return nil
		}
		w.mu.Unlock()
		breakKey(t, l, "a")
		wantErr(t, <-failed, lock.ErrLost, outage)
		w.fault = nil
		release(t, busy)
		time.Sleep(2 * ttl)
		w.free("a", "b")
	})
}

// If a lease has been lost by the time of the last grant, AcquireAll returns ErrLost.
func TestSetLossAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.slow = ttl/2 + ttl/10
		_, err := recipe.AcquireAll(t.Context(), w.locker(), []string{"a", "b"}, lock.WithoutRenewal())
		wantErr(t, err, lock.ErrLost)
		w.slow = 0
		w.free("a", "b")
	})
}

func TestSetWaitEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := w.locker()
		busy, err := l.Acquire(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		_, err = recipe.AcquireAll(t.Context(), l, []string{"a", "b", "c"}, lock.WithWait(time.Second))
		wantErr(t, err, lock.ErrHeld)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = recipe.AcquireAll(ctx, l, []string{"a", "b", "c"})
		wantErr(t, err, lock.ErrHeld, context.DeadlineExceeded)
		_, err = recipe.AcquireAll(busy.Context(t.Context()), l, []string{"a", "b"})
		wantErr(t, err, lock.ErrDeadlock)
		w.free("a", "c")
		both, err := recipe.AcquireAll(busy.Context(t.Context()), l, []string{"a", "b"}, lock.Reentrant())
		if err != nil {
			t.Fatal(err)
		}
		release(t, both)
		wantErr(t, busy.Err(), nil)
		release(t, busy)
	})
}

// Calls with their keys in any order do not deadlock, and exclude each other.
func TestSetsDoNotDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const workers, rounds, keys = 12, 30, 5
		var (
			holders [keys]int // each guarded only by the lock on its key
			wg      sync.WaitGroup
		)
		for i := range workers {
			l := w.locker()
			wg.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for range rounds {
					mine := random.Perm(keys)[:1+random.IntN(keys)]
					names := make([]string, len(mine))
					for i, key := range mine {
						names[i] = fmt.Sprint("key", key)
					}
					s, err := recipe.AcquireAll(t.Context(), l, names)
					if err != nil {
						t.Error(err)
						return
					}
					for _, key := range mine {
						if holders[key]++; holders[key] != 1 {
							t.Errorf("%d hold key %d", holders[key], key)
						}
					}
					time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
					for _, key := range mine {
						holders[key]--
					}
					release(t, s)
				}
			})
		}
		wg.Wait()
		waitBlocked()
	})
}
