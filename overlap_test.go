package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/memory"
)

// A slowStore grants every request. A renewal ends when renew returns.
type slowStore struct {
	backend.Backend
	leases *kit.Leases
	renew  func(ctx context.Context, key string) error
}

func newSlowStore(renew func(ctx context.Context, key string) error) *slowStore {
	s := &slowStore{Backend: memory.New(), renew: renew}
	s.leases = kit.NewLeases(s, time.Second)
	return s
}

func (s *slowStore) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return s.leases.Grant(ctx, r, kit.Grant{Token: 1, Sent: time.Now(), TTL: r.TTL})
}

func (s *slowStore) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	return ttl, s.renew(ctx, l.Key())
}

func (s *slowStore) ReleaseLease(context.Context, *kit.Life) error { return nil }

func (s *slowStore) Close() error {
	s.leases.Close()
	return s.Backend.Close()
}

// slowly takes 200 ms for a renewal. If the key begins with "dead", the renewal hangs.
func slowly(ctx context.Context, key string) error {
	if strings.HasPrefix(key, "dead") {
		return hang(ctx)
	}
	return kit.Sleep(ctx, 200*time.Millisecond)
}

// A Renew to a longer TTL takes effect even if automatic renewal, to the previous TTL, begins while the Renew is under
// way.
func TestRenewOverlapsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locker(t, newSlowStore(slowly), lock.WithTTL(ttl))
		for range 20 {
			lease := acquire(t, l, "k")
			third := time.Until(lease.Deadline()) / 3
			time.Sleep(third - third/8 - 10*time.Millisecond) // automatic renewal is due within the next eighth
			if err := lease.Renew(t.Context(), 10*ttl); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if left := time.Until(lease.Deadline()); left < 9*ttl {
				t.Errorf("%v left of %v", left, 10*ttl)
			}
			time.Sleep(10 * ttl)
			if lost(lease) {
				t.Fatal("lost")
			}
			release(t, lease)
		}
	})
}

// If a Renew gets no reply until the lease is lost, the error is ErrLost. It is not the error of the request's context,
// which the loss has ended.
func TestLossEndsRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := make(chan *lock.Lease, 1)
		l := locker(t, newSlowStore(func(ctx context.Context, _ string) error {
			lease := <-leases
			<-lease.Lost()
			wantErr(t, lease.Err(), lock.ErrLost) // waits until all contexts of the lease have ended
			return hang(ctx)
		}), lock.WithTTL(ttl), lock.WithoutRenewal())
		lease := acquire(t, l, "k")
		leases <- lease
		err := lease.Renew(t.Context(), ttl)
		if !errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrUnavailable) || kit.IsContextError(err) {
			t.Errorf("%v, want ErrLost alone", err)
		}
	})
}

// overlapping blocks the first renewal at f until the returned channel is closed.
func overlapping(f *faulty) (goOn chan struct{}) {
	goOn = make(chan struct{})
	first := true
	f.set(func() {
		f.renew = func(context.Context) error {
			f.mu.Lock()
			wait := first
			first = false
			f.mu.Unlock()
			if wait {
				<-goOn
			}
			return nil
		}
	})
	return goOn
}

// If a renewal on the holder's terms is under way at the release, it does not change the next holder's lease.
func TestHandoffOverlapsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithTTL(time.Second))
		goOn := overlapping(f)
		first := acquire(t, l, "k")
		got := queue(t, l, 1, lock.WithTTL(time.Minute), lock.WithoutRenewal())
		time.Sleep(350 * time.Millisecond) // renewal has begun
		release(t, first)
		next := <-got
		close(goOn)
		time.Sleep(10 * time.Millisecond)
		if left := time.Until(next.Deadline()); left < 59*time.Second {
			t.Errorf("%v left of a minute", left)
		}
		release(t, next)
	})
}

// A Renew that is under way when its lease is released neither delays the release nor changes the next holder's lease.
func TestReleaseOverlapsRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithTTL(time.Minute))
		goOn := overlapping(f)
		first := acquire(t, l, "k")
		got := queue(t, l, 1)
		renewed := make(chan error, 1)
		go func() { renewed <- first.Renew(context.Background(), time.Hour) }()
		synctest.Wait() // the store does not answer the Renew
		release(t, first)
		next := <-got
		if next.Owner() == first.Owner() {
			t.Error("handed on while a renewal was under way")
		}
		close(goOn)
		wantErr(t, <-renewed, lock.ErrReleased)
		if left := time.Until(next.Deadline()); left > time.Minute {
			t.Errorf("%v left of a minute", left)
		}
		release(t, next)
	})
}

// A renewal that is under way at the release does not free the key before its minimum hold has passed.
func TestMinHoldOverlapsRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		f := newFaulty(store.Client())
		a, b := locker(t, f, lock.WithTTL(time.Second)), locker(t, store.Client())
		goOn := overlapping(f)
		lease := acquire(t, a, "k", lock.WithMinHold(time.Minute))
		time.Sleep(350 * time.Millisecond) // renewal has begun
		time.AfterFunc(50*time.Millisecond, func() { close(goOn) })
		release(t, lease)
		time.Sleep(50 * time.Second)
		busy(t, b, "k")
		time.Sleep(11 * time.Second)
		free(t, b, "k")
	})
}

// A renewal that got no reply, and reaches the store after the release, does not free the key before its minimum hold
// has passed.
func TestMinHoldOutlivesLateRenewal(t *testing.T) {
	fail := func(context.Context) error { return lock.ErrUnavailable } // a time limit of the store itself
	automatic := func(*lock.Lease) {
		time.Sleep(570 * time.Millisecond) // sleeps: in fake time; the first renewal has failed
	}
	for name, test := range map[string]struct {
		renew  func(context.Context) error
		before func(*lock.Lease) // makes renewals until one has failed
		after  time.Duration     // from then until the release
		opts   []lock.AcquireOption
	}{
		"automatic":                 {renew: hang, before: automatic},
		"automatic, store's limit":  {renew: fail, before: automatic},
		"automatic, later answered": {renew: fail, before: automatic, after: 400 * time.Millisecond},
		"of the caller": {renew: hang, opts: []lock.AcquireOption{lock.WithoutRenewal()}, before: func(l *lock.Lease) {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			wantErr(t, l.Renew(ctx, time.Second), context.DeadlineExceeded)
		}},
		"of the caller, ended by the release": {renew: hang, opts: []lock.AcquireOption{lock.WithoutRenewal()},
			before: func(l *lock.Lease) {
				go func() { _ = l.Renew(context.Background(), time.Second) }()
				synctest.Wait()
			}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore()
				f := newFaulty(store.Client())
				a, b := locker(t, f, lock.WithTTL(time.Second)), locker(t, store.Client())
				f.set(func() { f.renew = test.renew })
				lease := acquire(t, a, "k", append(test.opts, lock.WithMinHold(time.Minute))...)
				test.before(lease)
				f.set(func() { f.renew = nil })
				time.Sleep(test.after) // sleeps: in fake time
				sent := f.lives["k"]
				time.AfterFunc(300*time.Millisecond, func() { _ = sent.Renew(context.Background(), time.Second) })
				release(t, lease)
				time.Sleep(50 * time.Second) // sleeps: in fake time
				busy(t, b, "k")
				time.Sleep(11 * time.Second) // sleeps: in fake time
				free(t, b, "k")
			})
		})
	}
}

// A release repeats its request for the rest of a minimum hold if a renewal got no reply. If the minimum hold has
// passed by then, the release reports no loss.
func TestMinHoldPassesInRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		f := newFaulty(store.Client())
		a, b := locker(t, f, lock.WithTTL(300*time.Millisecond)), locker(t, store.Client())
		f.set(func() { f.renew = hang })
		lease := acquire(t, a, "k", lock.WithMinHold(250*time.Millisecond))
		time.Sleep(220 * time.Millisecond) // sleeps: in fake time; a renewal has timed out
		f.set(func() { f.renew = nil })
		release(t, lease)
		free(t, b, "k")
	})
}

// Fifty renewals that hang do not delay the renewals of other leases.
func TestHungRenewalsDoNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locker(t, newSlowStore(slowly), lock.WithTTL(10*time.Minute))
		dead := make([]*lock.Lease, 50)
		for i := range dead {
			dead[i] = acquire(t, l, fmt.Sprint("dead", i))
		}
		time.Sleep(200 * time.Second) // by now the renewals of all these leases hang
		for range 5 {
			alive := acquire(t, l, "k", lock.WithTTL(2*time.Second))
			time.Sleep(30 * time.Second)
			if lost(alive) {
				t.Fatal("lost")
			}
			release(t, alive)
		}
		for _, lease := range dead {
			if lost(lease) {
				t.Fatal("these should live still")
			}
			release(t, lease)
		}
	})
}
