package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

// After a Locker has been closed, a second Locker can resume its lease, with the same token.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store := t.Context(), memory.NewStore()
		first := locker(t, store.Client(), lock.WithTokenBase(5))
		lease, err := first.Acquire(ctx, "k", lock.WithOwner("me"), lock.WithTTL(10*time.Second))
		if err != nil || lease.Owner() != "me" {
			t.Fatal(lease, err)
		}
		first.Close()

		second := locker(t, store.Client(), lock.WithTokenBase(5))
		if _, err := second.Resume(ctx, "k", "you"); !errors.Is(err, lock.ErrLost) {
			t.Errorf("resume of another: %v", err)
		}
		if _, err := second.Resume(ctx, "free", "me"); !errors.Is(err, lock.ErrLost) {
			t.Errorf("resume of a free key: %v", err)
		}
		resumed, err := second.Resume(ctx, "k", "me", lock.WithTTL(3*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if resumed.Token() != lease.Token() || resumed.Owner() != "me" || resumed.Key() != "k" {
			t.Errorf("resumed %s of %s with token %d, want %d", resumed.Key(), resumed.Owner(), resumed.Token(), lease.Token())
		}
		time.Sleep(time.Minute) // it renews itself
		if err := resumed.Err(); err != nil {
			t.Error(err)
		}
		if _, err := second.TryAcquire(ctx, "k"); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("acquire beside a resumed lease: %v", err)
		}
		if err := resumed.Release(ctx); err != nil {
			t.Error(err)
		}
		if _, err := second.Resume(ctx, "k", "me"); !errors.Is(err, lock.ErrLost) {
			t.Errorf("resume after release: %v", err)
		}
		next, err := second.TryAcquire(ctx, "k")
		if err != nil || next.Token() <= lease.Token() {
			t.Fatalf("next: %v", err)
		}
		next.Release(ctx)
	})
}

// Shutdown waits for a resumed lease, although it ends the wait of another goroutine for the same key.
func TestShutdownWaitsForResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store := t.Context(), memory.NewStore()
		first := locker(t, store.Client())
		if _, err := first.Acquire(ctx, "k", lock.WithOwner("me")); err != nil {
			t.Fatal(err)
		}
		second := locker(t, store.Client())
		waiting := make(chan error)
		go func() { // through the key's gate
			_, err := second.Acquire(ctx, "k")
			waiting <- err
		}()
		synctest.Wait()
		lease, err := second.Resume(ctx, "k", "me")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- second.Shutdown(ctx) }()
		if err := <-waiting; !errors.Is(err, lock.ErrClosed) {
			t.Errorf("waiter: %v", err)
		}
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("Shutdown did not wait: %v", err)
		default:
		}
		if _, err := second.Resume(ctx, "k", "me"); !errors.Is(err, lock.ErrClosed) {
			t.Errorf("resume: %v", err)
		}
		if err := lease.Release(ctx); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// No lease is handed on from or to a holder that uses WithOwner, because the store would know the next holder by
// another owner.
func TestOwnersAreNotHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		locks := locker(t, memory.New())
		for _, owners := range [][2]string{{"a", ""}, {"", "b"}, {"c", "d"}} {
			lease, err := locks.Acquire(ctx, "k", owned(owners[0])...)
			if err != nil {
				t.Fatal(err)
			}
			next := make(chan *lock.Lease)
			go func() {
				l, err := locks.Acquire(ctx, "k", owned(owners[1])...)
				if err != nil {
					t.Error(err)
				}
				next <- l
			}()
			synctest.Wait()
			lease.Release(ctx)
			l := <-next
			if l.Owner() == lease.Owner() || owners[1] != "" && l.Owner() != owners[1] || l.Token()&255 != 0 {
				t.Errorf("%q: owner %q after %q, token %d", owners, l.Owner(), lease.Owner(), l.Token())
			}
			l.Release(ctx)
		}
	})
}

func owned(owner string) []lock.AcquireOption {
	if owner == "" {
		return nil
	}
	return []lock.AcquireOption{lock.WithOwner(owner)}
}

// noResume hides that the store is a Resumer.
type noResume struct{ backend.Backend }

func TestResumeErrors(t *testing.T) {
	ctx := t.Context()
	locks := locker(t, noResume{memory.New()})
	if _, err := locks.Resume(ctx, "k", "me"); !errors.Is(err, lock.ErrUnsupported) || locks.Resumable() {
		t.Errorf("unsupported: %v, resumable %v", err, locks.Resumable())
	}
	locks = locker(t, memory.New())
	if locks.Resumable() {
		t.Error("leases in memory outlive their process")
	}
	if _, err := lock.New(memory.New(), lock.WithOwner("me")); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("owner of a Locker: %v", err)
	}
	for _, opts := range [][]lock.AcquireOption{
		{lock.WithOwner("me"), lock.RandomOwner()}, {lock.RandomOwner(), lock.WithOwner("me")},
	} {
		if _, err := locks.Acquire(ctx, "k", opts...); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("acquired with an owner although it must be random: %v", err)
		}
	}
	if _, err := locks.Acquire(ctx, "k", lock.WithOwner("")); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("empty owner: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	lease, err := locks.Acquire(ctx, "k", lock.WithOwner("me"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := locks.Resume(ended, "k", "me"); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if err := lease.Renew(ctx, time.Minute); err != nil {
		t.Errorf("a failed Resume ended the lease: %v", err)
	}
	locks.Close()
	if _, err := locks.Resume(ctx, "k", "me"); !errors.Is(err, lock.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// A quietStore does not report that a lease has ended at the store.
type quietStore struct{ *memory.Backend }

type quietLease struct{ backend.Lease }

func (quietLease) Lost() <-chan struct{} { return nil }

func (s quietStore) Guarantees() backend.Guarantees {
	g := s.Backend.Guarantees()
	g.ReportsLoss = false
	return g
}

func (s quietStore) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := s.Backend.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return quietLease{l}, nil
}

// Another process may release a lease that was acquired WithOwner. Waiters of this process then get the key at once,
// even if the store reports no loss, and TryAcquire succeeds.
func TestNamedLeaseEndsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, store := t.Context(), memory.NewStore()
		first, second := locker(t, quietStore{store.Client()}), locker(t, store.Client())
		for _, waits := range []bool{true, false} {
			held, err := first.Acquire(ctx, "k", lock.WithOwner("me"), lock.WithTTL(time.Minute), lock.WithoutRenewal())
			if err != nil {
				t.Fatal(err)
			}
			type outcome struct {
				lease *lock.Lease
				err   error
			}
			next := make(chan outcome, 1)
			acquire := func() {
				l, err := first.Acquire(ctx, "k")
				next <- outcome{l, err}
			}
			if waits {
				go acquire()
				synctest.Wait()
			}
			resumed, err := second.Resume(ctx, "k", "me")
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if err := resumed.Release(ctx); err != nil {
				t.Fatal(err)
			}
			if !waits {
				l, err := first.TryAcquire(ctx, "k")
				next <- outcome{l, err}
			}
			got := <-next
			if took := time.Since(begun); got.err != nil || took > time.Second {
				t.Fatalf("waits=%v: %v after %v, want the key at once", waits, got.err, took)
			}
			if err := held.Release(ctx); !errors.Is(err, lock.ErrLost) {
				t.Errorf("a release after the end: %v, want ErrLost", err)
			}
			if err := got.lease.Release(ctx); err != nil {
				t.Error(err)
			}
		}
	})
}
