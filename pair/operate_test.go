package pair_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/memory"
	"github.com/anylock/lock/pair"
)

func TestListReturnsWhatEitherStoreHolds(t *testing.T) {
	first, second := memory.New(), memory.New()
	b := pair.New(pair.Store{Backend: first, Prefix: "a/"}, pair.Store{Backend: second, Prefix: "b/"},
		0)
	defer b.Close()
	storetest.Acquire(t, first, storetest.Try("a/k-old", ttl))
	storetest.Acquire(t, second, storetest.Try("b/k-new", ttl))
	storetest.Acquire(t, b, storetest.Try("k-both", ttl))
	storetest.Acquire(t, b, storetest.Try("other", ttl))
	got, err := b.(backend.Lister).List(t.Context(), "k-")
	if want := []string{"k-both", "k-new", "k-old"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("List: %q, %v, want %q", got, err, want)
	}
}

// Break ends the lease that Inspect reports, no matter which generation holds it. It does not end the half that a
// waiter holds.
func TestBreakEndsLeaseOfEachGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, 0)
		breaks := func(holder backend.Lease) {
			t.Helper()
			h, err := g.both.Inspect(t.Context(), key)
			if err != nil || !h.Held() {
				t.Fatalf("Inspect: %+v, %v", h, err)
			}
			if err := g.both.(backend.Breaker).Break(t.Context(), key, h.Owner); err != nil {
				t.Fatalf("Break: %v", err)
			}
			if err := holder.Renew(t.Context(), ttl); !errors.Is(err, backend.ErrLost) {
				t.Errorf("Renew: %v, want ErrLost", err)
			}
		}
		for _, b := range []backend.Backend{g.old, g.both, g.next} {
			breaks(storetest.Acquire(t, b, storetest.Try(key, ttl)))
			free(t, g.old)
			free(t, g.next)
		}
		held := storetest.Acquire(t, g.next, storetest.Try(key, ttl))
		r := storetest.Wait(key, ttl)
		waiting := storetest.Start(t.Context(), g.both, r)
		time.Sleep(100 * time.Millisecond) // the waiter holds the first half by now
		if h, err := g.old.Inspect(t.Context(), key); err != nil || h.Owner != r.Owner {
			t.Fatalf("Inspect of the first: %+v, %v, want the waiter's half", h, err)
		}
		if err := g.both.(backend.Breaker).Break(t.Context(), key, r.Owner); !errors.Is(err, backend.ErrLost) {
			t.Errorf("Break of an owner that waits: %v, want ErrLost", err)
		}
		breaks(held)
		o := <-waiting
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		// Its owner at the second store has a number appended.
		if h, err := g.next.Inspect(t.Context(), key); err != nil || h.Owner == r.Owner {
			t.Fatalf("Inspect of the second: %+v, %v, want an owner made of %s", h, err, r.Owner)
		}
		if h, err := g.both.Inspect(t.Context(), key); err != nil || h.Owner != r.Owner {
			t.Errorf("Inspect: %+v, %v, want the owner %s", h, err, r.Owner)
		}
		breaks(o.Lease)
	})
}

// A refusal names the holder as Inspect does, so that Break ends its lease, even if its owner at the first store has a
// number appended.
func TestRefusalNamesTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, 0)
		held := storetest.Acquire(t, g.old, storetest.Try(key, ttl))
		r := storetest.Wait(key, ttl)
		waiting := storetest.Start(t.Context(), g.both, r)
		synctest.Wait()
		storetest.Release(t, held)
		if o := <-waiting; o.Err != nil {
			t.Fatal(o.Err)
		}
		_, err := g.both.Acquire(t.Context(), storetest.Try(key, ttl))
		refusal, ok := errors.AsType[*backend.HeldError](err)
		if !ok || refusal.Holder.Owner != r.Owner {
			t.Fatalf("Acquire of a held key: %v, want the holder %s", err, r.Owner)
		}
		if err := g.both.(backend.Breaker).Break(t.Context(), key, refusal.Holder.Owner); err != nil {
			t.Errorf("Break: %v", err)
		}
	})
}

// If one of the stores cannot list or break, the pair cannot, and its Break ends nothing.
func TestPairOfStoreThatCannot(t *testing.T) {
	first, second := struct{ backend.Backend }{memory.New()}, memory.New()
	b := pair.New(pair.Store{Backend: first}, pair.Store{Backend: second}, 0)
	defer b.Close()
	r := storetest.Try(key, ttl)
	l := storetest.Acquire(t, b, r)
	if _, can := b.(backend.Lister); can {
		t.Error("it is a Lister")
	}
	if err := b.(backend.Breaker).Break(context.Background(), key, r.Owner); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("Break: %v, want ErrUnsupported", err)
	}
	storetest.Release(t, l)
}

// A second Close returns at once, even if the callback of a loss calls it while the first Close waits for the callback.
func TestCloseInsideClose(t *testing.T) {
	b := pair.New(pair.Store{Backend: memory.New()}, pair.Store{Backend: memory.New()}, 0)
	l := storetest.Acquire(t, b, storetest.Try("k", ttl))
	l.(backend.LossNotifier).OnLost(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	closed := make(chan error)
	go func() { closed <- b.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Close waits for itself")
	}
}
