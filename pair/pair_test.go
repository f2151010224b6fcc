package pair_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/memory"
	"github.com/anylock/lock/pair"
)

// generations are the clients of three generations of processes: with the old store, with both, and with the new one.
type generations struct{ old, both, next backend.Backend }

func start(t *testing.T, cut uint64) generations {
	t.Helper()
	first, second := memory.NewStore(), memory.NewStore()
	g := generations{
		old:  first.Client(),
		both: pair.New(pair.Store{Backend: first.Client()}, pair.Store{Backend: second.Client()}, cut),
		next: second.Client(),
	}
	t.Cleanup(func() {
		for _, b := range []backend.Backend{g.old, g.both, g.next} {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return g
}

const key, ttl = "key", 30 * time.Second

func free(t *testing.T, b backend.Backend) {
	t.Helper()
	h, err := b.Inspect(t.Context(), key)
	if err != nil || h.Held() {
		t.Fatalf("Inspect: %+v, %v, want a free key", h, err)
	}
}

func refusedBy(t *testing.T, b backend.Backend) {
	t.Helper()
	if _, err := b.Acquire(t.Context(), storetest.Try(key, ttl)); !errors.Is(err, backend.ErrHeld) {
		t.Fatalf("Acquire: %v, want ErrHeld", err)
	}
}

func TestNeighboursExclude(t *testing.T) {
	g := start(t, 0)
	l := storetest.Acquire(t, g.both, storetest.Try(key, ttl))
	refusedBy(t, g.old)
	refusedBy(t, g.next)
	storetest.Release(t, l)
	free(t, g.old)
	free(t, g.next)
	for _, alone := range []backend.Backend{g.old, g.next} {
		l := storetest.Acquire(t, alone, storetest.Try(key, ttl))
		refusedBy(t, g.both)
		h, err := g.both.Inspect(t.Context(), key)
		if err != nil || !h.Held() {
			t.Fatalf("Inspect: %+v, %v, want a holder", h, err)
		}
		storetest.Release(t, l)
		free(t, g.both)
	}
}

// If the second store refuses the request, nothing is left at the first.
func TestRefusalGivesFirstBack(t *testing.T) {
	g := start(t, 0)
	storetest.Acquire(t, g.next, storetest.Try(key, ttl))
	refusedBy(t, g.both)
	free(t, g.old)
}

// If the key is busy only at the second store, a waiter lets processes that use only the first store pass. The waiter
// gets the key once it is free.
func TestWaiterGivesFirstBackAfterBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, 0)
		held := storetest.Acquire(t, g.next, storetest.Try(key, ttl))
		waiting := storetest.Start(t.Context(), g.both, storetest.Wait(key, ttl))
		synctest.Wait()
		begun := time.Now()
		for range 3 {
			l := storetest.Acquire(t, g.old, storetest.Wait(key, ttl))
			time.Sleep(time.Millisecond)
			storetest.Release(t, l)
			if took, most := time.Since(begun), 1300*time.Millisecond; took > most {
				t.Fatalf("the first store was kept for %v, want at most %v", took, most)
			}
			time.Sleep(300 * time.Millisecond) // the waiter is back at the first store
			begun = time.Now()
		}
		storetest.Release(t, held)
		o := <-waiting
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if left, least := time.Until(o.Lease.Deadline()), ttl*4/5; left < least {
			t.Errorf("a new lease has %v left, want at least %v", left, least)
		}
		storetest.Release(t, o.Lease)
	})
}

// echoing is a store that removes an owner's lease once more, some time after a release, like a store that cleans up
// after an unanswered request of the owner.
type echoing struct{ *memory.Backend }

func (s echoing) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := s.Backend.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return echoLease{l.(*kit.Life), func() { _ = s.Break(context.Background(), r.Key, r.Owner) }}, nil
}

type echoLease struct {
	*kit.Life
	again func()
}

func (l echoLease) Release(ctx context.Context) error {
	err := l.Life.Release(ctx)
	time.AfterFunc(300*time.Millisecond, l.again)
	return err
}

// A half that was released is acquired again under another owner, because the store may still be cleaning up after the
// previous one.
func TestOwnerIsUsedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := memory.NewStore(), memory.NewStore()
		old, next := first.Client(), second.Client()
		b := pair.New(pair.Store{Backend: echoing{first.Client()}}, pair.Store{Backend: second.Client()}, 0)
		defer func() {
			for _, b := range []backend.Backend{b, old, next} {
				b.Close()
			}
		}()
		held := storetest.Acquire(t, next, storetest.Try(key, ttl))
		waiting := storetest.Start(t.Context(), b, storetest.Wait(key, ttl))
		time.Sleep(1500 * time.Millisecond) // by now the first half was released and acquired again
		storetest.Release(t, held)
		o := <-waiting
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		refusedBy(t, old)
		storetest.Release(t, o.Lease)
	})
}

// failing is a store whose requests fail while it is down.
type failing struct {
	backend.Backend
	down atomic.Bool
}

func (f *failing) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if f.down.Load() {
		return nil, backend.ErrUnavailable
	}
	l, err := f.Backend.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return failingLease{l, f}, nil
}

type failingLease struct {
	backend.Lease
	store *failing
}

func (l failingLease) Renew(ctx context.Context, ttl time.Duration) error {
	if l.store.down.Load() {
		return backend.ErrUnavailable
	}
	return l.Lease.Renew(ctx, ttl)
}

// A waiter that has queued at the first store, however shortly, survives an outage of the second for a time. A request
// that begins during the outage fails at once.
func TestWaiterOutlivesOutageOfSecond(t *testing.T) {
	for _, waited := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 5 * time.Second} {
		t.Run(waited.String(), func(t *testing.T) { waiterOutlivesOutageOfSecond(t, waited) })
	}
}

func waiterOutlivesOutageOfSecond(t *testing.T, waited time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		first, second := memory.New(), &failing{Backend: memory.New()}
		b := pair.New(pair.Store{Backend: first}, pair.Store{Backend: second}, 0)
		defer b.Close()
		held := storetest.Acquire(t, first, storetest.Try(key, ttl))
		waiting := storetest.Start(t.Context(), b, storetest.Wait(key, ttl))
		time.Sleep(waited)
		second.down.Store(true)
		storetest.Release(t, held)
		time.Sleep(5 * time.Second)
		second.down.Store(false)
		o := <-waiting
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		storetest.Release(t, o.Lease)
		second.down.Store(true)
		begun := time.Now()
		if _, err := b.Acquire(t.Context(), storetest.Wait(key, ttl)); !errors.Is(err, backend.ErrUnavailable) ||
			time.Since(begun) > time.Second {
			t.Errorf("%v after %v, want ErrUnavailable at once", err, time.Since(begun))
		}
	})
}

// late is a store that grants a key only after a while.
type late struct{ backend.Backend }

func (s late) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	time.Sleep(1200 * time.Millisecond) // sleeps: in fake time
	return s.Backend.Acquire(ctx, r)
}

// A first store that is slow does not make a free key busy: an outage of the second store is reported at once, as an
// outage.
func TestSlowFirstStoreIsNotBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := &failing{Backend: memory.New()}
		second.down.Store(true)
		b := pair.New(pair.Store{Backend: late{memory.New()}}, pair.Store{Backend: second}, 0)
		defer b.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := b.Acquire(ctx, storetest.Wait(key, ttl))
		if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrHeld) || ctx.Err() != nil {
			t.Errorf("%v, want ErrUnavailable at once", err)
		}
	})
}

// A waiter that the second store has refused survives an outage of the first store that begins while it holds the first
// half.
func TestWaiterOutlivesOutageOfFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &failing{Backend: memory.New()}, memory.New()
		b := pair.New(pair.Store{Backend: first}, pair.Store{Backend: second}, 0)
		defer b.Close()
		const ttl = 3 * time.Second
		held := storetest.Acquire(t, second, storetest.Try(key, ttl))
		waiting := storetest.Start(t.Context(), b, storetest.Wait(key, ttl))
		time.Sleep(ttl / 6) // the first half must be renewed before the grant
		first.down.Store(true)
		storetest.Release(t, held)
		time.Sleep(ttl)
		first.down.Store(false)
		o := <-waiting
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		storetest.Release(t, o.Lease)
	})
}

// slow is a store that refuses a request only after the context has ended.
type slow struct{ backend.Backend }

func (s slow) Acquire(ctx context.Context, _ backend.Request) (backend.Lease, error) {
	<-ctx.Done()
	return nil, kit.ContextError(ctx, &backend.HeldError{Holder: backend.Holder{Owner: "other", Token: 5}})
}

// The end of the caller's context is reported as the context's error.
func TestContextErrorIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := pair.New(pair.Store{Backend: slow{memory.New()}}, pair.Store{Backend: memory.New()}, 0)
		defer b.Close()
		for _, r := range []backend.Request{storetest.Try(key, ttl), storetest.Wait(key, ttl)} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := b.Acquire(ctx, r); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
				!errors.Is(err, backend.ErrHeld) {
				t.Errorf("wait %v: %v", r.Wait, err)
			}
		}
	})
}

func TestEitherLossIsTheLoss(t *testing.T) {
	for i, name := range []string{"First", "Second"} {
		t.Run(name, func(t *testing.T) {
			stores := [2]*memory.Backend{memory.New(), memory.New()}
			b := pair.New(pair.Store{Backend: stores[0]}, pair.Store{Backend: stores[1]}, 0)
			defer b.Close()
			l := storetest.Acquire(t, b, storetest.Try(key, ttl))
			stores[i].Close() // reports the loss at once
			storetest.Lost(t, l, 5*time.Second)
			if err := l.Renew(t.Context(), ttl); !errors.Is(err, backend.ErrLost) {
				t.Errorf("Renew: %v, want ErrLost", err)
			}
			if err := l.Release(t.Context()); !errors.Is(err, backend.ErrLost) {
				t.Errorf("Release: %v, want ErrLost", err)
			}
			storetest.Until(t, 5*time.Second, "the other half is given back", func() bool {
				h, err := stores[1-i].Inspect(context.Background(), key)
				return err == nil && !h.Held()
			})
		})
	}
}

// plain is a store whose leases are not LossNotifiers.
type plain struct{ *memory.Backend }

func (p plain) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	l, err := p.Backend.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return struct{ backend.Lease }{l}, nil
}

// The loss of a half that is not a LossNotifier ends the lease. The other half is released, and no goroutine watches it
// any more.
func TestLossIsWatched(t *testing.T) {
	for i, name := range []string{"First", "Second"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // fails if a goroutine remains
				stores := [2]*memory.Backend{memory.New(), memory.New()}
				b := pair.New(pair.Store{Backend: plain{stores[0]}}, pair.Store{Backend: plain{stores[1]}}, 0)
				defer b.Close()
				l := storetest.Acquire(t, b, storetest.Try(key, ttl))
				stores[i].Close() // reports the loss at once
				storetest.Lost(t, l, 5*time.Second)
				if err := l.Release(t.Context()); !errors.Is(err, backend.ErrLost) {
					t.Errorf("Release: %v, want ErrLost", err)
				}
				synctest.Wait()
				free(t, stores[1-i])
			})
		})
	}
}

// Tokens rise from generation to generation, if the second store's numbers begin above the cut.
func TestTokensRiseThroughSwitch(t *testing.T) {
	first, second := memory.NewStore(), memory.NewStore()
	probe := storetest.Acquire(t, first.Client(), storetest.Try("probe", ttl))
	storetest.Release(t, probe)
	cut := probe.Token() + 100
	g := generations{
		old:  first.Client(),
		both: pair.New(pair.Store{Backend: first.Client()}, pair.Store{Backend: second.Client(), TokenBase: cut}, cut),
	}
	defer g.old.Close()
	defer g.both.Close()
	last := uint64(0)
	rises := func(b backend.Backend, base uint64) uint64 {
		t.Helper()
		l := storetest.Acquire(t, b, storetest.Try(key, ttl))
		token := l.Token() + base
		if h, err := b.Inspect(t.Context(), key); err != nil || h.Token+base != token {
			t.Fatalf("Inspect: %+v, %v, want token %d", h, err, token)
		}
		storetest.Release(t, l)
		if token <= last {
			t.Fatalf("token %d after %d", token, last)
		}
		last = token
		return l.Token()
	}
	for range 5 {
		rises(g.old, 0)
		rises(g.both, 0)
	}
	if last >= cut {
		t.Fatalf("token %d before the cut %d", last, cut)
	}
	for rises(g.old, 0) < cut { //nolint:revive // numbers pass
	}
	next := second.Client()
	defer next.Close()
	last = 0
	for range 5 {
		rises(g.both, 0)
		if last < cut {
			t.Fatalf("token %d after the cut %d", last, cut)
		}
		rises(next, cut)
	}
}

// arriving is a store that numbers a waiter when it arrives, and counts the numbers.
type arriving struct {
	backend.Backend
	mu    sync.Mutex
	next  uint64
	drawn int
}

func (a *arriving) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	var n uint64
	if r.Wait {
		n = a.draw()
	}
	l, err := a.Backend.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	if !r.Wait {
		n = a.draw()
	}
	return numbered{l, n}, nil
}

func (a *arriving) draw() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	a.drawn++
	return a.next
}

type numbered struct {
	backend.Lease
	n uint64
}

func (n numbered) Token() uint64 { return n.n }

// A waiter may have a number from before the cut, and be granted when others may already use the second store alone.
// Its token is then above theirs. A waiter that is granted sooner draws no further number.
func TestTokenOfOldWaiterIsTheSeconds(t *testing.T) {
	for _, c := range []struct {
		name   string
		waited time.Duration
		drawn  int // numbers of the first store
		passed bool
	}{{"AtOnce", 0, 2, false}, {"Soon", pair.SwitchDelay / 2, 2, false}, {"Late", pair.SwitchDelay, 4, true},
		{"LateBeforeTheCut", pair.SwitchDelay, 3, false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, second := &arriving{Backend: memory.New()}, memory.NewStore()
				const cut = 10
				b := pair.New(pair.Store{Backend: first}, pair.Store{Backend: second.Client(), TokenBase: cut}, cut)
				defer b.Close()
				held := storetest.Acquire(t, first, storetest.Try(key, ttl))
				waiting := storetest.Start(t.Context(), b, storetest.Wait(key, ttl))
				synctest.Wait()
				if c.passed {
					first.mu.Lock()
					first.next = cut
					first.mu.Unlock()
				}
				time.Sleep(c.waited)
				storetest.Release(t, held)
				o := <-waiting
				if o.Err != nil {
					t.Fatal(o.Err)
				}
				if got := o.Lease.Token(); (got >= cut) != c.passed || !c.passed && got != 2 {
					t.Errorf("token %d, want the second store's: %v", got, c.passed)
				}
				if first.drawn != c.drawn {
					t.Errorf("%d numbers of the first store were drawn, want %d", first.drawn, c.drawn)
				}
				storetest.Release(t, o.Lease)
			})
		})
	}
}

// Two waiters have numbers from before the cut, and one of them has waited for long. Neither gets a token below that of
// an earlier owner.
func TestTokensOfOldAndNewWaitersRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &arriving{Backend: memory.New()}, memory.NewStore()
		const cut = 4
		b := pair.New(pair.Store{Backend: first}, pair.Store{Backend: second.Client(), TokenBase: cut}, cut)
		defer b.Close()
		held := storetest.Acquire(t, first, storetest.Try(key, ttl))
		old := storetest.Start(t.Context(), b, storetest.Wait(key, ttl))
		time.Sleep(2 * pair.SwitchDelay)
		recent := storetest.Start(t.Context(), b, storetest.Wait(key, ttl))
		synctest.Wait() // its number is the last before the cut
		storetest.Release(t, held)
		last := uint64(0)
		for range 2 {
			var o storetest.Outcome
			select {
			case o = <-old:
			case o = <-recent:
			}
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			if token := o.Lease.Token(); token <= last {
				t.Errorf("token %d after %d", token, last)
			}
			last = o.Lease.Token()
			storetest.Release(t, o.Lease)
		}
		if last < cut {
			t.Errorf("the last token is %d, want one of the second store", last)
		}
	})
}

func TestURL(t *testing.T) {
	url := pair.URL("memory://a?lock_prefix=x%26y", "memory://b?lock_token_base=5", 7)
	b, err := openURL(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l := storetest.Acquire(t, b, storetest.Try(key, ttl))
	defer storetest.Release(t, l)
	alone, err := openURL(t.Context(), "memory://a")
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	if h, err := alone.Inspect(t.Context(), "x&y"+key); err != nil || !h.Held() {
		t.Errorf("the first store's key with its prefix: %+v, %v, want it held", h, err)
	}
	for _, bad := range []string{
		"pair:", "pair://host?lock_first=memory%3A&lock_second=memory%3A", "pair:?lock_first=memory%3A",
		"pair:?lock_first=redis://h?a=b&c=d&lock_second=memory%3A", "pair:?lock_first=nourl&lock_second=memory%3A",
		pair.URL("memory:", "memory:", 1<<55), pair.URL(url, "memory:", 0), url + "&lock_cut=7",
		pair.URL("memory:", "memory:?lock_token_base=x", 0),
	} {
		if b, err := openURL(t.Context(), bad); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%s: %v, %v, want ErrInvalid", bad, b, err)
		}
	}
}

func TestPasswordsAreNotShown(t *testing.T) {
	const secret = "S3cr%2Ft&x"
	for _, url := range []string{
		pair.URL("redis://u:"+secret+"@127.0.0.1:1/x/y", "memory:", 0),
		pair.URL("memory:", "postgres://u:"+secret+"@127.0.0.1:1/x?sslmode=odd", 0),
	} {
		_, err := openURL(t.Context(), url)
		if err == nil {
			t.Fatal("opened")
		}
		for _, form := range []string{"S3cr", "s3cr"} {
			if strings.Contains(err.Error(), form) || strings.Contains(driver.Redact(url), form) {
				t.Errorf("shows %q: %v, %s", form, err, driver.Redact(url))
			}
		}
	}
}

func TestGuaranteesAreTheWeaker(t *testing.T) {
	a := stub{g: backend.Guarantees{MinTTL: time.Second, Granularity: 4, MaxTTL: time.Hour, MaxLate: 1, MaxLeases: 3,
		Fencing: backend.FencingLoss, FIFO: true, Wake: backend.WakePush, Consistency: backend.Linearizable,
		Reach: backend.ReachNetwork, EnforcedBy: "x"}}
	b := stub{g: backend.Guarantees{MinTTL: 1, Granularity: 6, MaxSilence: time.Minute, MaxLate: 2, EarlyLoss: "eviction",
		EnforcedBy: "y"}}
	got := pair.New(pair.Store{Backend: a, Name: "a"}, pair.Store{Backend: b, Name: "b"}, 0).Guarantees()
	want := backend.Guarantees{MinTTL: time.Second, Granularity: 6, MaxTTL: time.Hour, MaxSilence: time.Minute,
		MaxLate: 2, MaxLeases: 3,
		EarlyLoss: "eviction", EnforcedBy: "a: x; b: y"}
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

type stub struct {
	backend.Backend
	g backend.Guarantees
}

func (s stub) Guarantees() backend.Guarantees { return s.g }
