package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/anylock/lock"
	"github.com/anylock/lock/adapters/kubernetes"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/memory"
)

func locker(t *testing.T, b backend.Backend) *lock.Locker {
	t.Helper()
	l, err := lock.New(b)
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

func newLock(t *testing.T, locks *lock.Locker, identity string, lost func(error)) *kubernetes.Lock {
	t.Helper()
	l, err := kubernetes.New(locks, key, identity, lost)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// heldBy is the record that an elector makes.
func heldBy(identity string, seconds int) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: identity, LeaseDurationSeconds: seconds}
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// An elector logs the identity of the holder, whose owner may have any bytes.
func TestIdentityOfOthersIsPrintable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		a, other := newLock(t, locker(t, store.Client()), "a", nil), locker(t, store.Client())
		lease, err := other.Acquire(t.Context(), key, lock.WithOwner("b\x1b[2J\nc"))
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release(t.Context()) //nolint:errcheck // it ends with the store
		if r, _, err := a.Get(t.Context()); err != nil || r.HolderIdentity != `b\x1b[2J\nc` {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// What the elector requests from a lock, call by call.
func TestRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		a, b := newLock(t, locker(t, store.Client()), "a", nil), newLock(t, locker(t, store.Client()), "b", nil)
		ctx, cancel := context.WithCancel(t.Context())
		if _, _, err := a.Get(ctx); !apierrors.IsNotFound(err) {
			t.Errorf("free: %v, want NotFound", err)
		}
		wantErr(t, "update without a lease", a.Update(ctx, heldBy("a", 10)), lock.ErrLost)
		wantErr(t, "half a second", a.Create(ctx, heldBy("a", 0)), lock.ErrInvalid)
		if err := a.Create(ctx, heldBy("a", 10)); err != nil {
			t.Fatal(err)
		}
		cancel() // as the elector does once it leads
		synctest.Wait()
		ctx = t.Context()
		lease := a.Lease()
		if lease == nil || lease.Context(t.Context()).Err() != nil || lease.Token() == 0 {
			t.Fatalf("the lease ended with the context of Create: %v", lease)
		}

		wantErr(t, "create by another", b.Create(ctx, heldBy("b", 10)), lock.ErrHeld)
		wantErr(t, "update by another", b.Update(ctx, heldBy("b", 10)), lock.ErrLost)
		wantErr(t, "release by another", b.Update(ctx, heldBy("", 1)), lock.ErrLost)
		if b.Lease() != nil {
			t.Error("b has a lease")
		}
		r1, raw1, err1 := b.Get(ctx)
		r2, raw2, err2 := b.Get(ctx)
		switch {
		case err1 != nil || err2 != nil:
			t.Fatal(err1, err2)
		case r1.HolderIdentity != lease.Owner() || r2.HolderIdentity != lease.Owner() || r1.LeaseDurationSeconds != 10:
			t.Errorf("the other's record: %+v, %+v; the owner is %s", r1, r2, lease.Owner())
		case bytes.Equal(raw1, raw2):
			t.Errorf("%q twice: an elector would take the holder for dead after LeaseDuration", raw1)
		}
		r, raw, err := a.Get(ctx)
		if err != nil || r.HolderIdentity != "a" || !strings.Contains(string(raw), `"holderIdentity":"a"`) {
			t.Errorf("own record: %+v, %s, %v", r, raw, err)
		}

		time.Sleep(8 * time.Second)
		if err := a.Update(ctx, heldBy("a", 10)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(8 * time.Second)
		if a.Lease() != lease {
			t.Error("an update has not renewed the lease")
		}
		if err := a.Update(ctx, heldBy("", 1)); err != nil || a.Lease() != nil {
			t.Errorf("release: %v", err)
		}
		if err := b.Create(ctx, heldBy("b", 10)); err != nil || b.Lease().Token() <= lease.Token() {
			t.Fatalf("after the release: %v", err)
		}

		time.Sleep(11 * time.Second)
		_, _, err = b.Get(ctx)
		wantErr(t, "get after a loss", err, lock.ErrLost)
		wantErr(t, "create after a loss", b.Create(ctx, heldBy("b", 10)), lock.ErrLost)
		wantErr(t, "update after a loss", b.Update(ctx, heldBy("b", 10)), lock.ErrLost)
		if b.Lease() != nil {
			t.Error("b has a lease still")
		}
		b.RecordEvent("stopped leading")
		if err := b.Create(ctx, heldBy("b", 10)); err != nil {
			t.Errorf("after the elector has stopped: %v", err)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	locks := locker(t, memory.New())
	for _, l := range []struct {
		locks         *lock.Locker
		key, identity string
	}{{nil, "k", "i"}, {locks, "", "i"}, {locks, "k", ""}} {
		_, err := kubernetes.New(l.locks, l.key, l.identity, nil)
		wantErr(t, "New", err, lock.ErrInvalid)
	}
}

// With shared leases, every candidate would lead. They are refused, and no key is held afterwards.
func TestRefusesSharedLeases(t *testing.T) {
	store := memory.NewStore()
	locks, err := lock.New(store.Client(), lock.Shared())
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	l := newLock(t, locks, "a", nil)
	wantErr(t, "create", l.Create(t.Context(), heldBy("a", 10)), lock.ErrInvalid)
	if l.Lease() != nil {
		t.Error("it leads")
	}
	if h, err := locks.Ops().Inspect(t.Context(), key); err != nil || h.Held() {
		t.Errorf("afterwards %+v holds the key, %v", h, err)
	}
}

// Two candidates with one identity do not lead both, as two of client-go would.
func TestSameIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		first := newCandidate(t, locker(t, store.Client()), "same", usual, true)
		lease := first.leads(t, time.Minute)
		second := newCandidate(t, locker(t, store.Client()), "same", usual, true)
		select {
		case <-second.started:
			t.Error("two lead")
		case <-time.After(10 * usual.lease):
		}
		if id := <-second.leaders; id != lease.Owner() {
			t.Errorf("the second follows %q, want %q", id, lease.Owner())
		}
		first.cancel(nil)
		first.stops(t, time.Minute)
		second.leads(t, usual.mostBetween())
		second.cancel(nil)
		second.stops(t, time.Minute)
	})
}

// A store that answers no renewal from some time on, and releases too late.
type hanging struct {
	backend.Backend
	hangs atomic.Bool
}

type hangingLease struct {
	*kit.Life
	store *hanging
}

func (s *hanging) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := s.Backend.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return &hangingLease{l.(*kit.Life), s}, nil
}

func (l *hangingLease) Renew(ctx context.Context, ttl time.Duration) error {
	if l.store.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return l.Life.Renew(ctx, ttl)
}

func (l *hangingLease) Release(ctx context.Context) error {
	err := l.Life.Release(ctx)
	if l.store.hangs.Load() {
		time.Sleep(5 * time.Second) // sleeps: a reply that is late
	}
	return err
}

// A leader whose renewals get no answer stops before the next one leads: by the elector's RenewDeadline if its times
// leave room for that, and by the lease's deadline in any case.
func TestStopsBeforeNext(t *testing.T) {
	for name, c := range map[string]struct {
		times
		reports bool  // New gets the function lost
		cause   error // why the context ended
	}{
		"by itself":   {usual, false, nil},
		"reported":    {usual, true, nil},
		"no room":     {times{15 * time.Second, 14 * time.Second, 5 * time.Second}, true, lock.ErrLost},
		"rounded off": {times{1900 * time.Millisecond, 1800 * time.Millisecond, 100 * time.Millisecond}, true, lock.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore()
				slow := &hanging{Backend: store.Client()}
				ctx, cancel := context.WithCancelCause(context.Background())
				lost := cancel
				if !c.reports {
					lost = nil
				}
				first := start(t, ctx, cancel, newLock(t, locker(t, slow), "first", lost), c.times, true)
				lease := first.leads(t, time.Minute)
				second := newCandidate(t, locker(t, store.Client()), "second", c.times, true)
				time.Sleep(10 * c.lease)
				slow.hangs.Store(true)
				next := make(chan time.Time)
				go func() {
					later := second.leads(t, time.Minute)
					if later.Token() <= lease.Token() {
						t.Errorf("token %d after %d", later.Token(), lease.Token())
					}
					next <- time.Now()
				}()
				stopped := first.stops(t, time.Minute)
				wantErr(t, "cause", context.Cause(ctx), c.cause)
				began := <-next
				if !stopped.Before(began) {
					t.Errorf("the first stopped %v after the second began", stopped.Sub(began))
				}
				t.Logf("stopped %v before the next began", began.Sub(stopped))
				second.cancel(nil)
				second.stops(t, time.Minute)
			})
		})
	}
}

// A leader that does not watch its lease gives up RenewDeadline after it has found the lease broken, although the key
// is free and its elector would acquire it again. It may lead again after that.
func TestGivesUpBrokenLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locker(t, memory.New())
		l := newLock(t, locks, "a", nil)
		ctx, cancel := context.WithCancelCause(context.Background())
		c := start(t, ctx, cancel, l, usual, true)
		lease := c.leads(t, time.Minute)
		broken := time.Now()
		if err := locks.Ops().Break(t.Context(), key, lease.Owner()); err != nil {
			t.Fatal(err)
		}
		if took, most := c.stops(t, time.Hour).Sub(broken), usual.retry+usual.deadline; took > most {
			t.Errorf("it led for %v after the loss, want %v at most", took, most)
		}
		if l.Lease() != nil {
			t.Error("it has a lease still")
		}
		again := start(t, ctx, cancel, l, usual, true)
		if later := again.leads(t, time.Minute); later.Token() <= lease.Token() {
			t.Errorf("token %d after %d", later.Token(), lease.Token())
		}
		cancel(nil)
		again.stops(t, time.Minute)
	})
}

// A Locker that is closed under its leader ends the term.
func TestClosedLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := locker(t, memory.New())
		c := newCandidate(t, locks, "a", usual, true)
		c.leads(t, time.Minute)
		if err := locks.Close(); err != nil {
			t.Fatal(err)
		}
		c.stops(t, time.Second)
		wantErr(t, "cause", context.Cause(c.ctx), lock.ErrClosed)
	})
}

// Without ReleaseOnCancel the key stays taken until the TTL has passed, for the same lock too, which calls nothing lost
// then.
func TestLeftToItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLock(t, locker(t, memory.New()), "a", func(err error) { t.Errorf("lost: %v", err) })
		for range 3 {
			ctx, cancel := context.WithCancelCause(context.Background())
			c := start(t, ctx, cancel, l, usual, false)
			lease := c.leads(t, usual.lease+usual.mostBetween())
			time.Sleep(3 * usual.lease)
			cancel(nil)
			stopped := c.stops(t, time.Second)
			if l.Lease() != nil || lease.Err() != nil {
				t.Errorf("lease %v, %v", l.Lease(), lease.Err())
			}
			if left := lease.Deadline().Sub(stopped); left < usual.lease-2*usual.retry {
				t.Errorf("the lease ends %v after its elector, whose LeaseDuration is %v", left, usual.lease)
			}
		}
		time.Sleep(2 * usual.lease)
	})
}
