package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/storetest"
)

// A client reuses names, whatever it does with a key. etcd's index keeps every key that existed under a prefix until a
// compaction, and searches all of them.
func TestNamesAreUsedAgain(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b, other := opened(t, s.URL()), opened(t, s.URL())
	const ttl, times = 20 * time.Second, 50
	for range times {
		l := acquire(t, b, req("k", ttl))
		if _, err := b.Acquire(t.Context(), req("k", ttl)); !errors.Is(err, backend.ErrHeld) {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := startAcquire(ctx, b, waiting("k", ttl))
		served := queueUp(t, b, waiting("k", ttl), 1)
		until(t, soon, "both wait", func() bool {
			h, err := other.Inspect(t.Context(), "k")
			return err == nil && h.Waiters == 2
		})
		cancel()
		if o := <-cancelled; !errors.Is(o.Err, context.Canceled) {
			t.Fatalf("cancelled: %v", o.Err)
		}
		release(t, l)
		release(t, granted(t, served, soon).Lease)
		until(t, soon, "nobody is left", func() bool {
			h, err := other.Inspect(t.Context(), "k")
			return err == nil && !h.Held()
		})
	}
	// If a wait is canceled before its request is answered, the name is not reused. That happens if the other client sees
	// the waiter before the reply arrives.
	const most = times
	if b.names.last > most {
		t.Errorf("%d names for %d rounds", b.names.last, times)
	}
}

// A waiter does not mistake a contender with a reused name for the contender that had the name before.
func TestUsedNameIsAnotherContender(t *testing.T) {
	t.Parallel()
	s := shared(t)
	p := storetest.NewProxy(t, s.Addr)
	b, waiter := opened(t, s.URL()), opened(t, s.via(p.Addr))
	const ttl = 20 * time.Second
	l := acquire(t, b, req("k", ttl))
	done := queueUp(t, waiter, waiting("k", ttl), 1)
	// The waiter's watch breaks. Before it is restored, the key is released, and its name is reused for a contender behind
	// the waiter.
	p.Set(func(p *storetest.Proxy) { p.Silent = true })
	release(t, l)
	name := l.(*kit.Life).Data.(*boundKey).name
	behind := queueUp(t, b, waiting("k", ttl), 1)
	if resp, err := raw(t, s.Addr).Get(t.Context(), b.options.prefix("k")+name); err != nil || resp.Count != 1 {
		t.Fatalf("the name was not used again: the test proves nothing (%v)", err)
	}
	p.Set(func(p *storetest.Proxy) { p.Silent = false })
	p.Cut()
	o := granted(t, done, 2*soon)
	select {
	case <-behind:
		t.Error("the contender behind came first")
	default:
	}
	release(t, o.Lease)
	release(t, granted(t, behind, soon).Lease)
}
