package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/anylock/lock/redis/internal/exchange"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/redistest"
)

// With one of three nodes hung, an acquire, a renewal and a release each take less than twice the node timeout,
// whichever node hangs, and every time. When the node runs again, nothing remains on it.
func TestFrozenNode(t *testing.T) {
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	const ttl = 30 * time.Second
	release(t, acquire(t, r, req("warm", ttl)))
	most := 2 * nodeTimeout(ttl)
	ctx := context.Background()
	for i, n := range f.nodes {
		n.Freeze()
		for round := range 10 {
			within := func(what string, f func() error) {
				t.Helper()
				for attempt := 1; ; attempt++ {
					begun := time.Now()
					err := f()
					took := time.Since(begun)
					if err != nil {
						t.Fatalf("%s with node %d frozen, round %d: %v", what, i, round, err)
					}
					if took < most {
						return
					}
					if attempt == attempts {
						t.Fatalf("%s with node %d frozen, round %d: took %v, want less than %v", what, i, round, took, most)
					}
				}
			}
			var l backend.Lease
			within("acquire", func() (err error) {
				if l != nil {
					_ = l.Release(ctx)
				}
				l, err = r.Acquire(ctx, req(fmt.Sprint("k", i, round), ttl))
				return err
			})
			within("renew", func() error { return l.Renew(ctx, ttl) })
			within("release", func() error { return l.Release(ctx) })
		}
		n.Thaw()
		until(t, soon, "what hung requests have left behind is removed",
			func() bool { return len(f.keys(n)) == 0 && !r.hasCleanups() })
	}
}

// hasCleanups reports whether any node has cleanups left.
func (r *Backend) hasCleanups() bool {
	for _, n := range r.nodes {
		n.mu.Lock()
		has := len(n.cleanups) > 0
		n.mu.Unlock()
		if has {
			return true
		}
	}
	return false
}

// A node that hangs does not make goroutines pile up over many requests.
func TestHungNodeIsLeftAlone(t *testing.T) {
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	release(t, acquire(t, r, req("warm", time.Minute)))
	before := redistest.FewestGoroutines()
	f.nodes[1].Freeze()
	most := 0
	for i := range 1000 {
		release(t, acquire(t, r, req(fmt.Sprint("k", i), 30*time.Second)))
		most = max(most, runtime.NumGoroutine())
	}
	// Workers, and connections that are being opened.
	if more := 2 * r.nodes[1].client.Options().PoolSize; most > before+more {
		t.Errorf("up to %d goroutines with a hung node, %d before", most, before)
	}
	f.nodes[1].Thaw()
	until(t, soon, "the node is free of keys", func() bool { return len(f.keys(f.nodes[1])) == 0 && !r.hasCleanups() })
}

// If a majority hangs, nothing is granted, the error reports that there is no quorum, and no key remains.
func TestFrozenMajority(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	release(t, acquire(t, r, req("warm", time.Minute)))
	for _, n := range f.nodes[:2] {
		n.Freeze()
	}
	begun := time.Now()
	_, err := r.Acquire(context.Background(), req("k", time.Minute))
	if err == nil || errors.Is(err, backend.ErrHeld) || !errors.As(err, new(*noQuorumError)) {
		t.Errorf("acquire with two of three nodes frozen: %v", err)
	}
	if took := time.Since(begun); took > exchange.DefaultTimeout+soon {
		t.Errorf("it took %v", took)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err = r.Acquire(ctx, req("k", time.Minute))
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, new(*noQuorumError)) {
		t.Errorf("acquire with two of three nodes frozen, for 300 ms: %v", err)
	}
	for _, n := range f.nodes[:2] {
		n.Thaw()
	}
	until(t, soon, "no node has the key", func() bool {
		n := 0
		for _, s := range f.nodes {
			n += len(f.keys(s))
		}
		return n == 0 && !r.hasCleanups()
	})
	release(t, acquire(t, r, req("k", time.Minute)))
}

// A waiter that starts to wait for a held key while a node is down gets the key after the release.
func TestWaitsWithoutANode(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	a, b := f.open(), f.open()
	for i, n := range f.nodes {
		l := acquire(t, a, req("k", 30*time.Second))
		n.Kill()
		if _, err := b.Acquire(context.Background(), req("k", 30*time.Second)); !errors.Is(err, backend.ErrHeld) {
			t.Fatalf("acquire of a held key without node %d: %v", i, err)
		}
		looks := f.looks(i)
		done := startAcquire(context.Background(), b, waiting("k", 30*time.Second))
		until(t, soon, "the waiter has been refused and looks at the key", func() bool { return f.looks(i) > looks })
		release(t, l)
		release(t, granted(t, done, soon).Lease)
		n.Start()
		// This checks both clients, because a client whose connections are often refused dials only once a second.
		until(t, soon, "all nodes vote", func() bool { return a.voters(t, f) == 3 && b.voters(t, f) == 3 })
	}
}

// looks returns how often waiters have checked a key (PTTL), on all nodes but one.
func (f *fleet) looks(but int) (n int) {
	f.t.Helper()
	for i, node := range f.nodes {
		if i != but {
			n += redistest.Commands(f.t, redistest.Raw(f.t, node.Addr))["pttl"]
		}
	}
	return n
}

// If one node has not received a release yet, and another hangs, an Acquire is not refused: the hung node grants the
// key when it runs again.
func TestRefusalInDoubt(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	f.bootstrap()
	r := f.open()
	release(t, acquire(t, r, req("warm", time.Minute)))
	f.nodes[2].Freeze()
	for attempt := 1; ; attempt++ { // if the machine pauses while attempts are repeated, the Acquire may fail
		until(t, 10*time.Second, "the frozen node is taken for hung", func() bool {
			release(t, acquire(t, r, waiting("warm", time.Minute)))
			return r.nodes[2].isUnresponsive()
		})
		key := fmt.Sprint("k", attempt)
		stale := newNaming(endpoint.DefaultNamespace).lock(key)
		if err := redistest.Raw(t, f.nodes[0].Addr).Set(context.Background(), stale, "1:1:gone",
			time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		thawed := make(chan struct{})
		go func() {
			time.Sleep(100 * time.Millisecond) // sleeps: how long the node stays frozen under the attempt
			f.nodes[2].Thaw()
			close(thawed)
		}()
		l, err := r.Acquire(context.Background(), req(key, time.Minute))
		<-thawed
		if err == nil {
			release(t, l)
			break
		}
		if attempt == attempts || !errors.Is(err, backend.ErrHeld) {
			t.Fatal(err)
		}
		f.nodes[2].Freeze()
	}
}
