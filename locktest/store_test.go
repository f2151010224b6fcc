package locktest_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/locktest"
)

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}

func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.New(t)
		locks := store.Locker()
		release := store.Hold("k")
		_, err := locks.TryAcquire(t.Context(), "k")
		is(t, err, lock.ErrHeld)
		_, err = locks.Acquire(t.Context(), "k", lock.WithWait(time.Minute))
		is(t, err, lock.ErrHeld)
		time.AfterFunc(time.Hour, release)
		begun := time.Now()
		lease, err := locks.Acquire(t.Context(), "k")
		if err != nil || time.Since(begun) != time.Hour {
			t.Fatalf("%v after %v", err, time.Since(begun))
		}
		is(t, lease.Release(t.Context()), nil)
	})
}

func TestLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.New(t)
		locks, other := store.Locker(), store.Locker()
		got := make(chan *lock.Lease, 1)
		err := locks.Do(t.Context(), "k", func(ctx context.Context, _ *lock.Lease) error {
			go func() {
				lease, err := other.Acquire(t.Context(), "k")
				if err != nil {
					t.Error(err)
				}
				got <- lease
			}()
			synctest.Wait()
			begun := time.Now()
			store.Lose("k")
			<-ctx.Done()
			if late := time.Since(begun); late != 0 {
				t.Errorf("notified after %v", late)
			}
			return nil
		})
		is(t, err, lock.ErrLost)
		if lease := <-got; lease != nil {
			is(t, lease.Release(t.Context()), nil)
		}
	})
}

// A key that has lost the holder of Hold is free for the next Hold, too.
func TestHoldAfterLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.New(t)
		first := store.Hold("k")
		store.Lose("k")
		second := store.Hold("k")
		first() // does not end the second
		_, err := store.Locker().TryAcquire(t.Context(), "k")
		is(t, err, lock.ErrHeld)
		second()
		lease, err := store.Locker().TryAcquire(t.Context(), "k")
		is(t, err, nil)
		if err == nil {
			is(t, lease.Release(t.Context()), nil)
		}
	})
}

// If an exclusive lease is lost, the readers that wait for it get the key and keep it.
func TestLoseSparesWaitingReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.New(t)
		locks := store.Locker()
		lease, err := locks.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan *lock.Lease, 2)
		for range cap(got) {
			go func() {
				reader, err := store.Locker().Acquire(t.Context(), "k", lock.Shared())
				if err != nil {
					t.Error(err)
				}
				got <- reader
			}()
		}
		synctest.Wait()
		store.Lose("k")
		<-lease.Lost()
		for range cap(got) {
			if reader := <-got; reader != nil {
				is(t, reader.Err(), nil)
				is(t, reader.Release(t.Context()), nil)
			}
		}
	})
}

func TestSetAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.New(t)
		locks := store.Locker(lock.WithTTL(time.Minute))
		acquire := func() *lock.Lease {
			lease, err := locks.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			return lease
		}
		lease := acquire()
		store.SetAway(true)
		time.Sleep(30 * time.Second)
		store.SetAway(false) // a short outage does not end the lease
		time.Sleep(time.Hour)
		is(t, lease.Err(), nil)
		store.SetAway(true)
		_, err := locks.Acquire(t.Context(), "other")
		is(t, err, lock.ErrUnavailable)
		_, err = locks.Ops().Inspect(t.Context(), "k")
		is(t, err, lock.ErrUnavailable)
		begun := time.Now()
		<-lease.Lost()
		if after := time.Since(begun); after < 30*time.Second || after > time.Minute {
			t.Errorf("lost after %v", after)
		}
		store.SetAway(false)
		is(t, lease.Release(t.Context()), lock.ErrLost)
		time.Sleep(time.Minute)

		lease = acquire()
		store.SetAway(true)
		is(t, lease.Release(t.Context()), lock.ErrUnavailable)
		store.SetAway(false)
		_, err = locks.TryAcquire(t.Context(), "k")
		is(t, err, lock.ErrHeld) // until the TTL
		time.Sleep(time.Minute)
		is(t, acquire().Release(t.Context()), nil)
	})
}

func TestSetDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.New(t)
		locks := store.Locker(lock.WithTTL(time.Minute))
		store.SetDelay(3 * time.Second)
		begun := time.Now()
		_, err := locks.Acquire(t.Context(), "k", lock.WithWait(time.Second))
		is(t, err, lock.ErrUnavailable)
		if waited := time.Since(begun); waited != time.Second {
			t.Errorf("waited %v", waited)
		}
		lease, err := locks.Acquire(t.Context(), "k")
		if waited := time.Since(begun); err != nil || waited != 4*time.Second {
			t.Fatalf("%v after %v", err, waited)
		}
		time.Sleep(time.Hour) // slow renewals still arrive
		is(t, lease.Err(), nil)
		store.SetDelay(time.Minute)
		<-lease.Lost()
		is(t, context.Cause(lease.Context(t.Context())), lock.ErrLost)
		store.SetDelay(0)
		is(t, lease.Release(t.Context()), lock.ErrLost)
	})
}

func TestSharedLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.New(t)
		locks, other := store.Locker(), store.Locker()
		release := store.Hold("k", lock.Shared())
		_, err := locks.TryAcquire(t.Context(), "k")
		is(t, err, lock.ErrHeld)
		one, err := locks.Acquire(t.Context(), "k", lock.Shared())
		is(t, err, nil)
		two, err := locks.Acquire(t.Context(), "k", lock.Shared())
		is(t, err, nil)
		writer := make(chan *lock.Lease, 1)
		go func() {
			lease, err := other.Acquire(t.Context(), "k")
			is(t, err, nil)
			writer <- lease
		}()
		synctest.Wait()
		_, err = locks.TryAcquire(t.Context(), "k", lock.Shared())
		is(t, err, lock.ErrHeld)
		store.Lose("k")
		synctest.Wait()
		for _, reader := range []*lock.Lease{one, two} {
			is(t, reader.Err(), lock.ErrLost)
		}
		is(t, (<-writer).Release(t.Context()), nil)
		release()
	})
}

// Close ends requests that have not reached the store yet.
func TestCloseEndsSlowRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := locktest.New(t)
		locks := store.Locker()
		lease, err := locks.Acquire(t.Context(), "held")
		is(t, err, nil)
		store.SetDelay(time.Hour)
		errs := make(chan error)
		for _, call := range []func() error{
			func() error { _, err := locks.Acquire(t.Context(), "k"); return err },
			func() error { _, err := locks.TryAcquire(t.Context(), "other"); return err },
			func() error { _, err := locks.Ops().Inspect(t.Context(), "k"); return err },
			func() error { _, err := locks.Ops().List(t.Context(), ""); return err },
			func() error { return lease.Release(t.Context()) },
		} {
			go func() { errs <- call() }()
		}
		synctest.Wait()
		begun := time.Now()
		is(t, locks.Close(), nil)
		for range 5 {
			is(t, <-errs, lock.ErrClosed)
		}
		if late := time.Since(begun); late != 0 {
			t.Errorf("the last call ended %v after Close", late)
		}
	})
}

// Lose notifies a holder whose Acquire has not returned yet.
func TestLoseDuringAcquire(t *testing.T) {
	store := locktest.New(t)
	locks := store.Locker()
	for range 6000 {
		got := make(chan *lock.Lease, 1)
		go func() {
			lease, err := locks.Acquire(t.Context(), "k")
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		var h lock.Holder
		for !h.Held() {
			runtime.Gosched()
			var err error
			if h, err = locks.Ops().Inspect(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		}
		store.Lose("k")
		lease := <-got
		if lease == nil {
			return
		}
		if lease.Owner() == h.Owner { // otherwise Acquire has noticed the loss, and acquired the key again
			select {
			case <-lease.Lost():
			case <-time.After(5 * time.Second):
				t.Fatal("the holder was not notified")
			}
		}
		_ = lease.Release(t.Context())
	}
}
