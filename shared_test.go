package lock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

// begin starts an Acquire of k, and returns once the request waits or is granted. The channel receives the lease.
func begin(t *testing.T, l *lock.Locker, opts ...lock.AcquireOption) <-chan *lock.Lease {
	t.Helper()
	return queue(t, l, 1, opts...)
}

func wantWaiting(t *testing.T, who string, got <-chan *lock.Lease) {
	t.Helper()
	synctest.Wait()
	if len(got) > 0 {
		t.Errorf("%s has the key", who)
	}
}

func TestReadersOfAProcessShareAKey(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		first, second := acquire(t, a, "k", lock.Shared()), acquire(t, a, "k", lock.Shared())
		third := acquire(t, b, "k", lock.Shared())
		if !first.Shared() || first.Owner() == second.Owner() || first.Token() == second.Token() {
			t.Error("two readers of a process are not two shared leases")
		}
		var held *lock.HeldError
		for _, l := range []*lock.Locker{a, b} {
			if _, err := l.TryAcquire(t.Context(), "k"); !errors.As(err, &held) || held.Holder.Shared != 3 ||
				!strings.Contains(err.Error(), "held by 3 readers for up to 30s more, one of them "+third.Owner()) {
				t.Errorf("a writer beside readers: %v", err)
			}
		}
		if h, err := a.Ops().Inspect(t.Context(), "k"); err != nil || h.Shared != 3 || h.Token != third.Token() {
			t.Errorf("inspect: %+v, %v", h, err)
		}
		if err := a.Ops().Break(t.Context(), "k", second.Owner()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute) // the others renew themselves
		wantErr(t, second.Release(t.Context()), lock.ErrLost)
		wantErr(t, second.Err(), lock.ErrLost)
		release(t, first)
		busy(t, a, "k")
		release(t, third)
		writer := acquire(t, a, "k")
		if writer.Shared() || writer.Token() <= third.Token() {
			t.Errorf("shared %v, token %d after %d", writer.Shared(), writer.Token(), third.Token())
		}
		for _, l := range []*lock.Locker{a, b} {
			if _, err := l.TryAcquire(t.Context(), "k", lock.Shared()); !errors.As(err, &held) || held.Holder.Shared != 0 {
				t.Errorf("a reader beside a writer: %v", err)
			}
		}
		release(t, writer)
		if err := a.Do(t.Context(), "k", func(ctx context.Context, l *lock.Lease) error {
			release(t, acquire(t, a, "k", lock.Shared()))
			busy(t, b, "k")
			return nil
		}, lock.Shared()); err != nil {
			t.Error(err)
		}
		free(t, b, "k")
	})
}

// The first writer in the queue of a process has a place in the store's queue, which no later reader overtakes. The
// writers behind it follow.
func TestLocalReadersDoNotStarveLocalWriters(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *lock.Locker) {
		held := acquire(t, a, "k", lock.Shared())
		first, second := begin(t, a), begin(t, a)
		var readers sync.WaitGroup
		readers.Go(func() { // each reader begins before the previous one ends
			for range 200 {
				readers.Go(func() {
					l, err := a.Acquire(t.Context(), "k", lock.Shared())
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(15 * time.Millisecond)
					release(t, l)
				})
				time.Sleep(10 * time.Millisecond)
			}
		})
		time.Sleep(time.Second)
		release(t, held)
		start := time.Now()
		synctest.Wait()
		release(t, <-first)
		release(t, <-second)
		if waited := time.Since(start); waited > 50*time.Millisecond {
			t.Errorf("the writers waited for %v after the reader ahead of them", waited)
		}
		readers.Wait()
		free(t, a, "k")
	}, lock.WithHandoff(0))
}

// The readers of a process queue at the store, in order with the writers of other processes.
func TestLocalReadersQueueAtTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		held := acquire(t, a, "k")
		firstReaders := queue(t, a, 2, lock.Shared())
		writer := begin(t, b)
		lastReader := begin(t, a, lock.Shared())
		if h, _ := a.Ops().Inspect(t.Context(), "k"); h.Waiters != 4 {
			t.Errorf("%d wait at the store, want 4", h.Waiters)
		}
		release(t, held)
		one, two := <-firstReaders, <-firstReaders
		wantWaiting(t, "the writer", writer)
		release(t, one)
		wantWaiting(t, "the writer beside a reader", writer)
		wantWaiting(t, "the reader behind the writer", lastReader)
		if _, err := a.Acquire(t.Context(), "k", lock.Shared(), lock.WithWait(time.Second)); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("a reader behind the writer, after its wait: %v", err)
		}
		release(t, two)
		release(t, <-writer)
		release(t, <-lastReader)
	}, lock.WithHandoff(0))
}

// Under the context of a lease, a request in the other mode is ErrDeadlock, even with Reentrant.
func TestUpgradeIsADeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, a, _ *lock.Locker) {
		shared, again := []lock.AcquireOption{lock.Shared()}, []lock.AcquireOption{lock.Reentrant()}
		both := append(shared, again...)
		for name, c := range map[string]struct {
			held, wanted []lock.AcquireOption
			text         string // of the error, empty if there is none
		}{
			"upgrade":                             {shared, nil, "held under this context as shared"},
			"upgrade, reentrant":                  {shared, again, "held under this context as shared"},
			"downgrade":                           {nil, shared, "held under this context as exclusive"},
			"downgrade, reentrant":                {nil, both, "held under this context as exclusive"},
			"shared under shared":                 {shared, shared, "without Reentrant"},
			"shared under shared, reentrant":      {shared, both, ""},
			"exclusive under exclusive":           {nil, nil, "without Reentrant"},
			"exclusive under exclusive,reentrant": {nil, again, ""},
		} {
			outer := acquire(t, a, "k", c.held...)
			ctx := outer.Context(t.Context())
			for _, wait := range []time.Duration{0, time.Minute} {
				inner, err := a.Acquire(ctx, "k", append(c.wanted, lock.WithWait(wait))...)
				if err == nil {
					release(t, inner)
				}
				switch {
				case c.text == "" && err != nil:
					t.Errorf("%s: %v", name, err)
				case c.text == "":
					if inner.Token() != outer.Token() || inner.Shared() != outer.Shared() {
						t.Errorf("%s: another lease", name)
					}
				case !errors.Is(err, lock.ErrDeadlock) || errors.Is(err, lock.ErrHeld) || !strings.Contains(err.Error(), c.text):
					t.Errorf("%s: %v", name, err)
				}
			}
			release(t, outer)
			free(t, a, "k")
		}
	})
}

// A re-entry does not wait behind a writer that waits for the outer lease.
func TestReaderReentersBeforeAWaitingWriter(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		outer := acquire(t, a, "k", lock.Shared())
		writer := begin(t, b)
		inner, err := a.Acquire(outer.Context(t.Context()), "k", lock.Shared(), lock.Reentrant())
		if err != nil {
			t.Fatal(err)
		}
		release(t, outer)
		wantWaiting(t, "the writer", writer)
		release(t, inner)
		release(t, <-writer)
	})
}

// exclusiveOnly is a store without shared leases that fails the test at any request.
type exclusiveOnly struct {
	backend.Backend
	t *testing.T
}

func (e exclusiveOnly) Guarantees() backend.Guarantees {
	g := e.Backend.Guarantees()
	g.Shared = false
	return g
}

func (e exclusiveOnly) Acquire(context.Context, backend.Request) (backend.Lease, error) {
	e.t.Error("a request to the store")
	return nil, backend.ErrUnavailable
}

func (e exclusiveOnly) Resume(context.Context, backend.Request) (backend.Lease, error) {
	e.t.Error("a request to the store")
	return nil, backend.ErrUnavailable
}

func TestStoreWithoutSharedLeases(t *testing.T) {
	store := exclusiveOnly{memory.New(), t}
	l := locker(t, store)
	_, acquired := l.Acquire(t.Context(), "k", lock.Shared())
	_, tried := l.TryAcquire(t.Context(), "k", lock.Shared())
	_, resumed := l.Resume(t.Context(), "k", "me", lock.Shared())
	done := l.Do(t.Context(), "k", func(context.Context, *lock.Lease) error { return nil }, lock.Shared())
	_, opened := lock.New(store, lock.Shared())
	_, required := lock.New(store, lock.Require(lock.Need{Shared: true}))
	for _, c := range []struct {
		op, key string
		err     error
	}{
		{"acquire", "k", acquired},
		{"acquire", "k", tried},
		{"acquire", "k", done},
		{"resume", "k", resumed},
		{"open", "", opened},
		{"open", "", required},
	} {
		var e *lock.Error
		if !errors.As(c.err, &e) || e.Op != c.op || e.Key != c.key || e.Backend != "lock_test" ||
			!errors.Is(c.err, lock.ErrUnsupported) || errors.As(e.Err, &e) {
			t.Errorf("%s: %v", c.op, c.err)
		}
	}
}

// Exclusive refuses shared leases before any request to the store, and has no other effect.
func TestExclusiveRefusesShared(t *testing.T) {
	store := newFaulty(memory.New())
	l, readers := locker(t, store), locker(t, store, lock.Shared())
	_, after := l.Acquire(t.Context(), "k", lock.Shared(), lock.Exclusive())
	_, before := l.TryAcquire(t.Context(), "k", lock.Exclusive(), lock.Shared())
	_, byDefault := readers.Acquire(t.Context(), "k", lock.Exclusive())
	_, opened := lock.New(store, lock.Exclusive(), lock.Shared())
	for _, err := range []error{after, before, byDefault, opened} {
		wantErr(t, err, lock.ErrInvalid)
	}
	lease := acquire(t, l, "k", lock.Exclusive())
	if lease.Shared() {
		t.Error("the lease is shared")
	}
	release(t, lease)
	if acquires, _, _ := store.counts(); acquires != 1 {
		t.Errorf("%d requests for leases, want 1", acquires)
	}
}

// Shutdown ends the waits of readers at the store, and waits for the readers that hold the key.
func TestShutdownWithReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		l, err := lock.New(store.Client())
		if err != nil {
			t.Fatal(err)
		}
		other := locker(t, store.Client())
		reader := acquire(t, l, "k", lock.Shared())
		foreign := begin(t, other) // keeps the next reader waiting
		waits := make(chan error, 1)
		go func() {
			_, err := l.Acquire(t.Context(), "k", lock.Shared())
			waits <- err
		}()
		synctest.Wait()
		done := shutdown(t.Context(), l)
		if err := <-waits; !errors.Is(err, lock.ErrClosed) {
			t.Errorf("a reader that waits: %v", err)
		}
		_, err = l.TryAcquire(t.Context(), "k", lock.Shared())
		wantErr(t, err, lock.ErrClosed)
		time.Sleep(time.Minute)
		if len(done) > 0 || reader.Err() != nil {
			t.Errorf("Shutdown did not wait for a reader (%v)", reader.Err())
		}
		release(t, reader)
		if err := <-done; err != nil {
			t.Error(err)
		}
		release(t, <-foreign)
	})
}

func TestSharedLeaseEndsByItsOwnTerms(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *lock.Locker) {
		start := time.Now()
		short := acquire(t, a, "k", lock.Shared(), lock.WithMaxHold(time.Minute))
		long := acquire(t, a, "k", lock.Shared(), lock.WithMinHold(3*time.Minute))
		writer := begin(t, b)
		<-short.Lost()
		if held := time.Since(start); held > time.Minute {
			t.Errorf("lost after %v", held)
		}
		if long.Err() != nil {
			t.Error(long.Err())
		}
		wantErr(t, short.Release(t.Context()), lock.ErrLost)
		release(t, long)
		release(t, <-writer)
		if held := time.Since(start); held < 3*time.Minute || held > 4*time.Minute {
			t.Errorf("the writer got the key after %v, with a minimum hold of 3m", held)
		}
	})
}

func TestResumeOfASharedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		first := locker(t, store.Client())
		lease := acquire(t, first, "k", lock.Shared(), lock.WithOwner("me"))
		acquire(t, first, "k", lock.Shared(), lock.WithoutRenewal())
		first.Close()
		second := locker(t, store.Client())
		if _, err := second.Resume(t.Context(), "k", "me"); !errors.Is(err, lock.ErrLost) {
			t.Errorf("resumed as exclusive: %v", err)
		}
		resumed, err := second.Resume(t.Context(), "k", "me", lock.Shared())
		if err != nil {
			t.Fatal(err)
		}
		if !resumed.Shared() || resumed.Token() != lease.Token() {
			t.Errorf("resumed with token %d, want %d, shared %v", resumed.Token(), lease.Token(), resumed.Shared())
		}
		time.Sleep(time.Minute)
		if h, _ := second.Ops().Inspect(t.Context(), "k"); h.Shared != 1 || h.Owner != "me" {
			t.Errorf("a minute later: %+v", h)
		}
		if err := resumed.Release(t.Context()); err != nil {
			t.Error(err)
		}
		free(t, second, "k")
	})
}

func TestTracerKnowsTheMode(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			trace := &recorder{}
			l := locker(t, memory.New(), lock.WithTracer(trace))
			var opts []lock.AcquireOption
			if shared {
				opts = append(opts, lock.Shared())
			}
			lease := acquire(t, l, "k", opts...)
			time.Sleep(time.Minute)
			release(t, lease)
			if trace.started[0].Shared != shared || trace.latest().Shared != shared ||
				trace.renewals()[0].Shared != shared || trace.ends()[0].Shared != shared {
				t.Errorf("%+v", trace)
			}
		})
	}
}
