package pair_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/memory"
	"github.com/anylock/lock/pair"
)

func shared(r backend.Request) backend.Request {
	r.Shared = true
	return r
}

// exclusiveOnly is a store without shared leases.
type exclusiveOnly struct{ backend.Backend }

func (e exclusiveOnly) Guarantees() backend.Guarantees {
	g := e.Backend.Guarantees()
	g.Shared = false
	return g
}

func TestSharedNeedsBothStores(t *testing.T) {
	for _, stores := range [][2]backend.Backend{
		{exclusiveOnly{memory.New()}, memory.New()},
		{memory.New(), exclusiveOnly{memory.New()}},
	} {
		b := pair.New(pair.Store{Backend: stores[0]}, pair.Store{Backend: stores[1]}, 0)
		defer b.Close()
		promised := b.Guarantees().Shared
		_, err := b.Acquire(t.Context(), shared(storetest.Try(key, ttl)))
		if !errors.Is(err, backend.ErrUnsupported) || promised {
			t.Errorf("%v, Shared %v", err, promised)
		}
	}
}

// Readers of all generations share the key, and exclude writers of their own and neighbouring generations.
func TestReadersOfEachGeneration(t *testing.T) {
	g := start(t, 0)
	for _, b := range []backend.Backend{g.old, g.both, g.next} {
		l := storetest.Acquire(t, b, shared(storetest.Try(key, ttl)))
		beside := storetest.Acquire(t, g.both, shared(storetest.Try(key, ttl)))
		refusedBy(t, g.old)
		refusedBy(t, g.next)
		storetest.Release(t, beside)
		refusedBy(t, g.both)
		storetest.Release(t, l)
		writer := storetest.Acquire(t, b, storetest.Try(key, ttl))
		if _, err := g.both.Acquire(t.Context(), shared(storetest.Try(key, ttl))); !errors.Is(err, backend.ErrHeld) {
			t.Errorf("a reader beside a writer: %v", err)
		}
		storetest.Release(t, writer)
	}
}

func TestInspectOfReaders(t *testing.T) {
	for cut, known := range map[uint64]bool{0: true, backend.TokenLimit - 1: false} {
		g := start(t, cut)
		inspect := func(readers int, owner string, token uint64) {
			t.Helper()
			h, err := g.both.Inspect(t.Context(), key)
			if err != nil || h.Shared != readers || h.Owner != owner || h.Token != token {
				t.Errorf("%+v, %v; want %d readers and token %d of %s", h, err, readers, token, owner)
			}
		}
		storetest.Acquire(t, g.both, shared(storetest.Try(key, ttl)))
		two, alone := shared(storetest.Try(key, time.Minute)), shared(storetest.Try(key, time.Hour))
		last := storetest.Acquire(t, g.both, two)
		inspect(2, two.Owner, last.Token())
		token := storetest.Acquire(t, g.next, alone).Token()
		if !known {
			token = 0
		}
		inspect(3, alone.Owner, token)
	}
}

// No reader overtakes a waiting writer. When the writer is cancelled, the consecutive readers behind it enter together.
func TestQueueOfReadersAndWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, 0)
		held := storetest.Acquire(t, g.both, shared(storetest.Try(key, ttl)))
		ctx, cancel := context.WithCancel(t.Context())
		writer := storetest.Start(ctx, g.both, storetest.Wait(key, ttl))
		synctest.Wait()
		one := storetest.Start(t.Context(), g.both, shared(storetest.Wait(key, ttl)))
		two := storetest.Start(t.Context(), g.both, shared(storetest.Wait(key, ttl)))
		synctest.Wait()
		if len(one)+len(two) > 0 {
			t.Error("a reader passed the writer")
		}
		cancel()
		<-writer
		readers := []backend.Lease{(<-one).Lease, (<-two).Lease, held}
		for _, l := range readers {
			if err := l.Renew(t.Context(), time.Minute); err != nil {
				t.Error(err)
			}
			storetest.Release(t, l)
		}
		free(t, g.both)
	})
}

// Break ends only the reader that it names, even if the lease of another reader ends later at either store.
func TestBreakOfOneReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, 0)
		writer := storetest.Acquire(t, g.next, storetest.Try(key, ttl))
		r := shared(storetest.Wait(key, ttl))
		waiting := storetest.Start(t.Context(), g.both, r)
		time.Sleep(3 * time.Second) // the waiter makes more than one request to each store
		storetest.Release(t, writer)
		broken := (<-waiting).Lease
		others := []backend.Lease{
			storetest.Acquire(t, g.both, shared(storetest.Try(key, time.Hour))),
			storetest.Acquire(t, g.old, shared(storetest.Try(key, 2*time.Hour))),
			storetest.Acquire(t, g.next, shared(storetest.Try(key, 2*time.Hour))),
		}
		b := g.both.(backend.Breaker)
		if err := b.Break(t.Context(), key, r.Owner); err != nil {
			t.Fatalf("Break: %v", err)
		}
		if err := broken.Renew(t.Context(), ttl); !errors.Is(err, backend.ErrLost) {
			t.Errorf("the broken lease: %v, want ErrLost", err)
		}
		if err := b.Break(t.Context(), key, r.Owner); !errors.Is(err, backend.ErrLost) {
			t.Errorf("a second Break: %v, want ErrLost", err)
		}
		for _, l := range others {
			if err := l.Renew(t.Context(), ttl); err != nil {
				t.Errorf("another reader: %v", err)
			}
			storetest.Release(t, l)
		}
		free(t, g.old)
		free(t, g.next)
	})
}
