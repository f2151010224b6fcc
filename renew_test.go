package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/memory"
)

const ttl = 10 * time.Second

func TestRenewalKeepsTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		lease := acquire(t, a, "k")
		for range 100 {
			time.Sleep(ttl / 2)
			busy(t, b, "k")
			if left := time.Until(lease.Deadline()); left < ttl/2 {
				t.Errorf("%v left", left)
			}
		}
		if lost(lease) || lease.Err() != nil {
			t.Error("lost")
		}
		release(t, lease)
		deadline := lease.Deadline()
		time.Sleep(time.Hour)
		if lease.Deadline() != deadline || lost(lease) {
			t.Error("a released lease lives on")
		}
	}, lock.WithTTL(ttl))
}

func TestRenewalCostsOneRequestPerThirdOfTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithTTL(ttl))
		lease := acquire(t, l, "k")
		time.Sleep(100 * ttl)
		release(t, lease)
		_, renewals, _ := f.counts()
		if renewals < 290 || renewals > 360 {
			t.Errorf("%d renewals in 100 TTLs", renewals)
		}
		time.Sleep(10 * ttl)
		if _, now, _ := f.counts(); now != renewals {
			t.Errorf("%d renewals after release", now-renewals)
		}
	})
}

// If renewals hang, Lost closes at the deadline at the latest, and the cause of the context is ErrLost.
func TestHungRenewalsLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithTTL(ttl))
		lease := acquire(t, l, "k")
		ctx := lease.Context(t.Context())
		time.Sleep(3 * ttl)
		f.set(func() { f.renew = hang })
		hung := time.Now()
		<-lease.Lost()
		if d := time.Since(hung); d > ttl {
			t.Errorf("lost %v after the store hung", d)
		}
		if _, n, _ := f.counts(); n < 10 {
			t.Errorf("%d attempts: one that hangs must leave time for others", n)
		}
		<-ctx.Done()
		wantErr(t, context.Cause(ctx), lock.ErrLost)
		wantErr(t, lease.Err(), lock.ErrLost)
		wantErr(t, lease.Renew(t.Context(), ttl), lock.ErrLost)
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
	})
}

func TestRenewalOutlivesErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithTTL(ttl))
		lease := acquire(t, l, "k")
		n := 0
		f.set(func() {
			f.renew = func(context.Context) error {
				if n++; n%4 != 0 {
					return errors.New("connection reset")
				}
				return nil
			}
		})
		time.Sleep(50 * ttl)
		if lost(lease) {
			t.Error("lost")
		}
		release(t, lease)
	})
}

// If the store reports a loss, the holder is notified at once, before the deadline.
func TestLossAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithTTL(ttl))
		lease, other := acquire(t, l, "k"), acquire(t, l, "other")
		ctx := lease.Context(t.Context())
		start := time.Now()
		f.lives["k"].Lose()
		if !lost(lease) || lost(other) {
			t.Errorf("lost: %v, the other: %v", lost(lease), lost(other))
		}
		wantErr(t, context.Cause(ctx), lock.ErrLost)
		if d := time.Since(start); d != 0 {
			t.Errorf("notified after %v", d)
		}
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
		release(t, other)
	})
}

func TestWithoutRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		start := time.Now()
		lease := acquire(t, a, "k", lock.WithoutRenewal())
		time.Sleep(ttl / 2)
		if err := lease.Renew(t.Context(), 2*ttl); err != nil {
			t.Error(err)
		}
		<-lease.Lost()
		if d, want := time.Since(start), ttl/2+2*ttl-backend.Margin(2*ttl); d != want {
			t.Errorf("lost after %v, want %v", d, want)
		}
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
		time.Sleep(time.Second)
		free(t, b, "k")
	}, lock.WithTTL(ttl))
}

func TestRenewChangesTheTTL(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		lease := acquire(t, a, "k", lock.WithTTL(ttl))
		if err := lease.Renew(t.Context(), time.Second); err != nil {
			t.Error(err)
		}
		if left := time.Until(lease.Deadline()); left > time.Second {
			t.Errorf("%v left of a second", left)
		}
		time.Sleep(time.Minute) // automatic renewal continues with the new TTL
		if left := time.Until(lease.Deadline()); lost(lease) || left > time.Second {
			t.Errorf("lost %v, %v left", lost(lease), left)
		}
		release(t, lease)
		free(t, b, "k")
	})
}

func TestWithMaxHold(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		for _, most := range []time.Duration{ttl / 5, ttl, 3*ttl + ttl/2} {
			start := time.Now()
			lease := acquire(t, a, "k", lock.WithMaxHold(most))
			<-lease.Lost()
			if d := time.Since(start); d > most || d < most-2*backend.Margin(ttl) {
				t.Errorf("lost after %v, want %v", d, most)
			}
			wantErr(t, lease.Renew(t.Context(), ttl), lock.ErrLost)
			wantErr(t, lease.Release(t.Context()), lock.ErrLost)
			time.Sleep(time.Second)
			free(t, b, "k")
			lease = acquire(t, a, "k", lock.WithMaxHold(most))
			if err := lease.Renew(t.Context(), time.Hour); err != nil {
				t.Error(err)
			}
			if left := time.Until(lease.Deadline()); left > most {
				t.Errorf("Renew gave %v over a maximum hold of %v", left, most)
			}
			release(t, lease)
		}
	}, lock.WithTTL(ttl))
}

func TestWithMinHold(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		for _, least := range []time.Duration{time.Second, time.Minute} { // shorter and longer than the TTL
			start := time.Now()
			lease := acquire(t, a, "k", lock.WithMinHold(least))
			waiting := make(chan *lock.Lease)
			go func() { waiting <- acquire(t, a, "k") }() // at the gate
			synctest.Wait()
			time.Sleep(least / 10)
			release(t, lease)
			busy(t, a, "k")
			busy(t, b, "k")
			next := <-waiting
			if d := time.Since(start); d < least || d > least+time.Second {
				t.Errorf("key was free after %v, want %v", d, least)
			}
			if lost(lease) {
				t.Error("lost after a clean release")
			}
			release(t, next)

			lease = acquire(t, a, "k", lock.WithMinHold(least))
			time.Sleep(2 * least)
			release(t, lease)
			free(t, b, "k")
		}
	}, lock.WithTTL(ttl))
}

// The deadline is not before the end of the minimum hold, because some stores free the key at the deadline.
func TestMinHoldEndsBeforeTheDeadline(t *testing.T) {
	for _, store := range []struct {
		b     func() backend.Backend
		holds []time.Duration
	}{
		{func() backend.Backend { return memory.New() }, []time.Duration{
			time.Nanosecond, time.Millisecond, time.Second, time.Hour, 9 * 365 * 24 * time.Hour,
		}},
		{func() backend.Backend { return bounded{memory.New()} }, []time.Duration{59 * time.Second}},
	} {
		for _, least := range store.holds {
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty(store.b())
				l := locker(t, f, lock.WithTTL(ttl))
				begun := time.Now()
				release(t, acquire(t, l, "k", lock.WithMinHold(least)))
				if d := f.lives["k"].Deadline().Sub(begun); d < least {
					t.Errorf("the deadline is %v after the grant, %v before the end of the minimum hold", d, least-d)
				}
			})
		}
	}
}

// If one request of the release fails, the key still stays busy for its minimum hold.
func TestWithMinHoldOutlivesAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(memory.New())
		l := locker(t, f, lock.WithTTL(ttl))
		lease := acquire(t, l, "k", lock.WithMinHold(time.Minute))
		failures := 1
		f.set(func() {
			f.renew = func(context.Context) error {
				if failures--; failures >= 0 {
					return errors.New("reset")
				}
				return nil
			}
		})
		release(t, lease)
		time.Sleep(time.Minute - time.Second)
		busy(t, l, "k")

		// If the store keeps failing, the release returns after a limited time.
		lease = acquire(t, l, "other", lock.WithMinHold(time.Minute))
		f.set(func() { failures = 1 << 30 })
		start := time.Now()
		release(t, lease)
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("release took %v", d)
		}
	})
}

// Ten thousand leases need at most eight goroutines together, and none is lost within three TTLs.
func TestManyLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		l := locker(t, memory.New(), lock.WithTTL(ttl))
		before := runtime.NumGoroutine()
		leases := make([]*lock.Lease, n)
		for i := range leases {
			leases[i] = acquire(t, l, strconv.Itoa(i))
		}
		most := 0
		for range 60 {
			time.Sleep(ttl / 20)
			most = max(most, runtime.NumGoroutine()-before)
		}
		if most > 8 {
			t.Errorf("%d goroutines for %d leases", most, n)
		}
		for _, lease := range leases {
			if lost(lease) || lease.Err() != nil {
				t.Fatal("lost")
			}
			release(t, lease)
		}
	})
}

// The loss of a lease that is not a LossNotifier reaches its holder too.
func TestLeaseWithoutCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locker(t, plainStore{memory.New()}, lock.WithTTL(ttl), lock.WithoutRenewal())
		lease := acquire(t, l, "k")
		ctx := lease.Context(t.Context())
		<-ctx.Done()
		wantErr(t, context.Cause(ctx), lock.ErrLost)
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
		time.Sleep(time.Second)
		lease = acquire(t, l, "k")
		release(t, lease)
	})
}

type plainStore struct{ backend.Backend }

type plainLease struct{ backend.Lease }

func (p plainStore) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := p.Backend.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return plainLease{l}, nil
}

// A lease that lasts until its maximum hold is not renewed. If Renew shortens the lease, automatic renewal extends it
// again.
func TestShortenedUnderMaxHold(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *lock.Locker) {
		start := time.Now()
		lease := acquire(t, a, "k", lock.WithMaxHold(ttl))
		time.Sleep(ttl / 2) // automatic renewal has found that it cannot extend the lease
		if err := lease.Renew(t.Context(), time.Second); err != nil {
			t.Error(err)
		}
		<-lease.Lost()
		if d := time.Since(start); d < ttl-2*backend.Margin(ttl) || d > ttl {
			t.Errorf("lost after %v, want %v", d, ttl)
		}
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
	}, lock.WithTTL(ttl))
}

// coarse is a store with a MinTTL of two seconds and the given granularity.
type coarse struct {
	backend.Backend
	granularity time.Duration
}

func (c coarse) Guarantees() backend.Guarantees {
	g := c.Backend.Guarantees()
	g.MinTTL, g.Granularity = 2*time.Second, c.granularity
	return g
}

func (c coarse) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	r.TTL = c.Guarantees().Round(r.TTL)
	l, err := c.Backend.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return coarseLease{l, c}, nil
}

type coarseLease struct {
	backend.Lease
	store coarse
}

func (l coarseLease) Renew(ctx context.Context, ttl time.Duration) error {
	return l.Lease.Renew(ctx, l.store.Guarantees().Round(ttl))
}

// If the store rounds the TTL up, the lease is renewed until its maximum hold, and not beyond.
func TestMaxHoldOfRoundedTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locker(t, coarse{Backend: memory.New()})
		const most, early = time.Minute, 2 * time.Second / 3 // a third of the granted TTL
		for _, ttl := range []time.Duration{time.Second, 1900 * time.Millisecond} {
			start := time.Now()
			lease := acquire(t, l, "k", lock.WithTTL(ttl), lock.WithMaxHold(most))
			<-lease.Lost()
			if d := time.Since(start); d > most || d < most-early-backend.Margin(2*time.Second) {
				t.Errorf("with a TTL of %v: lost after %v, want %v, or up to %v less", ttl, d, most, early)
			}
			wantErr(t, lease.Release(t.Context()), lock.ErrLost)
			time.Sleep(time.Second) // the store keeps the key beyond the deadline, by the margin
		}
	})
}

// Neither automatic renewal nor Renew requests a TTL that the store would round up beyond the maximum hold.
func TestMaxHoldBetweenUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locker(t, coarse{memory.New(), time.Second})
		const most = 12 * time.Second
		for range 5 { // the time of the first renewal varies
			start := time.Now()
			<-acquire(t, l, "k", lock.WithTTL(10*time.Second), lock.WithMaxHold(most)).Lost()
			if d := time.Since(start); d > most || d < most-10*time.Second/3 {
				t.Errorf("lost after %v, want %v, or up to a third of the TTL less", d, most)
			}
			time.Sleep(time.Second) // the store keeps the key beyond the deadline, by the margin
		}
		day := acquire(t, l, "k", lock.WithTTL(2*time.Second), lock.WithMaxHold(most), lock.WithoutRenewal())
		if err := day.Renew(t.Context(), 24*time.Hour); err != nil || time.Until(day.Deadline()) < most-time.Second {
			t.Errorf("renewed for a day: %v, %v left, want what the maximum hold of %v leaves", err, time.Until(day.Deadline()),
				most)
		}
		release(t, day)
		start := time.Now()
		lease := acquire(t, l, "k", lock.WithTTL(2*time.Second), lock.WithMaxHold(most))
		for before := time.Duration(0); before < most-100*time.Millisecond; before = time.Since(start) {
			if err := lease.Renew(t.Context(), time.Minute); err != nil {
				t.Fatalf("renew after %v: %v", before, err)
			}
			if d := lease.Deadline().Sub(start); d > most {
				t.Fatalf("after %v renewed until %v, want at most %v", before, d, most)
			}
			time.Sleep(70 * time.Millisecond)
		}
		<-lease.Lost()
		wantErr(t, lease.Renew(t.Context(), time.Minute), lock.ErrLost)
	})
}

// A Renew that gets no reply does not stop automatic renewal.
func TestHungRenewDoesNotStopRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool // the next request hangs
		l := locker(t, newSlowStore(func(ctx context.Context, _ string) error {
			if hangs.Swap(false) {
				return hang(ctx)
			}
			return nil
		}), lock.WithTTL(ttl))
		lease := acquire(t, l, "k")
		time.Sleep(time.Second)
		hangs.Store(true)
		if err := lease.Renew(context.Background(), ttl); err == nil || errors.Is(err, lock.ErrLost) {
			t.Errorf("a renewal without an answer: %v", err)
		}
		time.Sleep(3 * ttl)
		if lost(lease) {
			t.Error("lost")
		}
		release(t, lease)
	})
}

// A failed Renew to a shorter TTL may bring the deadline nearer. Automatic renewal still extends the lease in time.
func TestFailedRenewToAShorterTTL(t *testing.T) {
	reset := errors.New("connection reset")
	for name, fault := range map[string]func(context.Context) error{
		"error":     func(context.Context) error { return reset },
		"no answer": hang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fails atomic.Bool // the next request fails
				l := locker(t, newSlowStore(func(ctx context.Context, _ string) error {
					if fails.Swap(false) {
						return fault(ctx)
					}
					return nil
				}), lock.WithTTL(ttl))
				lease := acquire(t, l, "k")
				time.Sleep(ttl / 100)
				fails.Store(true)
				if err := lease.Renew(context.Background(), ttl/10); err == nil || errors.Is(err, lock.ErrLost) {
					t.Errorf("a renewal that fails: %v", err)
				}
				time.Sleep(3 * ttl)
				if lost(lease) {
					t.Fatal("lost")
				}
				release(t, lease)
			})
		})
	}
}

// Short leases, which this slow store cannot renew in time, do not shorten the time limit for the renewal of other
// leases.
func TestShortLeasesDoNotHurryOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locker(t, slowBatches{memory.New()}, lock.WithTTL(time.Minute))
		long := acquire(t, l, "long", lock.WithTTL(ttl))
		var wg sync.WaitGroup
		end := time.Now().Add(10 * ttl)
		for i := range 50 {
			wg.Go(func() {
				for time.Now().Before(end) {
					short := acquire(t, l, strconv.Itoa(i), lock.WithTTL(time.Second))
					<-short.Lost()
					wantErr(t, short.Release(t.Context()), lock.ErrLost)
				}
			})
		}
		wg.Wait()
		if lost(long) {
			t.Error("lost")
		}
		release(t, long)
	})
}

// slowBatches answers renewals after half a second.
type slowBatches struct{ *memory.Backend }

func (s slowBatches) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	if err := kit.Sleep(ctx, 500*time.Millisecond); err != nil {
		errs := make([]error, len(renewals))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	return s.Backend.RenewBatch(ctx, renewals)
}

// If a store returns fewer errors than the batch has leases, the remaining leases count as not renewed, and are lost.
func TestShortBatchAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := locker(t, mute{memory.New()}, lock.WithTTL(ttl))
		lease := acquire(t, l, "k")
		<-lease.Lost()
		wantErr(t, lease.Release(t.Context()), lock.ErrLost)
	})
}

type mute struct{ *memory.Backend }

func (mute) RenewBatch(context.Context, []backend.Renewal) []error { return nil }

// brokenBatches fails the first batches of renewals.
type brokenBatches struct {
	*memory.Backend
	failures atomic.Int32
}

func (b *brokenBatches) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	if b.failures.Add(-1) < 0 {
		return b.Backend.RenewBatch(ctx, renewals)
	}
	errs := make([]error, len(renewals))
	for i := range errs {
		errs[i] = errors.New("connection reset")
	}
	return errs
}

// A logger that blocks does not stop the renewal of leases whose previous renewal failed.
func TestBlockedLogDoesNotStopRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &brokenBatches{Backend: memory.New()}
		store.failures.Store(3)
		blocked := make(chan struct{})
		defer close(blocked)
		l := locker(t, store, lock.WithTTL(ttl), lock.WithLogger(slog.New(blockedHandler{slog.DiscardHandler, blocked})))
		leases := []*lock.Lease{acquire(t, l, "1"), acquire(t, l, "2")}
		time.Sleep(3 * ttl)
		for _, lease := range leases {
			if lost(lease) {
				t.Fatal("lost")
			}
			release(t, lease)
		}
	})
}

// countedBatches counts the requests for renewals, and the leases in them.
type countedBatches struct {
	*memory.Backend
	mu               sync.Mutex
	requests, leases int
}

func (c *countedBatches) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	c.mu.Lock()
	c.requests++
	c.leases += len(renewals)
	c.mu.Unlock()
	return c.Backend.RenewBatch(ctx, renewals)
}

// Leases that were acquired one after the other share requests for renewals, and none is lost.
func TestRenewalsShareRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases, long = 2000, time.Minute
		store := &countedBatches{Backend: memory.New()}
		l := locker(t, store, lock.WithTTL(long))
		begun := time.Now()
		held := make([]*lock.Lease, leases)
		for i := range held {
			held[i] = acquire(t, l, fmt.Sprint(i))
			time.Sleep(time.Millisecond)
		}
		const times = 6
		// each is renewed after a third of the remaining time, or up to an eighth of that third earlier
		time.Sleep(time.Until(begun.Add(2*long + long/8)))
		store.mu.Lock()
		defer store.mu.Unlock()
		if store.leases < times*leases || store.leases > (times+1)*leases {
			t.Errorf("%d renewals of %d leases, want %d or %d of each", store.leases, leases, times, times+1)
		}
		if store.requests > 10*times {
			t.Errorf("%d requests for %d renewals", store.requests, store.leases)
		}
		for i, h := range held {
			if h.Err() != nil {
				t.Fatalf("lease %d: %v", i, h.Err())
			}
		}
	})
}
