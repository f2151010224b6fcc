package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/redistest"
)

// A voter that loses a lease early lets no second owner in, however it lost the lease. A holds its key on nodes 0 and
// 1; node 1 loses the key, and node 2 never had it. Without a guard, nodes 1 and 2 would be a quorum.
func TestForgetfulVoter(t *testing.T) {
	t.Parallel()
	const maxTTL = 3 * time.Second
	for how, forget := range map[string]func(n *servers.Server){
		"restart": func(n *servers.Server) { n.Kill(); n.Start() },
		"flushall": func(n *servers.Server) {
			c := redistest.Raw(t, n.Addr)
			if err := c.FlushAll(context.Background()).Err(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, 3) // a restart loses all data
			f.bootstrap()
			a, b := f.open(paramMaxTTL+"="+maxTTL.String()), f.open(paramMaxTTL+"="+maxTTL.String())
			hold := func() backend.Lease {
				l := acquire(t, a, waiting("k", maxTTL))
				lock := newNaming(endpoint.DefaultNamespace).lock("k")
				f.whole(a, l)
				if err := redistest.Raw(t, f.nodes[2].Addr).Del(context.Background(), lock).Err(); err != nil {
					t.Fatal(err)
				}
				return l
			}
			var l backend.Lease
			tries := 0
			for attempt := 1; tries == 0; attempt++ { // if the machine pauses for most of a TTL, no try ends in time
				if attempt > attempts {
					t.Fatal("no answer to a try before the deadline")
				}
				l, tries = hold(), 0
				forget(f.nodes[1])
				for ; time.Now().Before(l.Deadline()); time.Sleep(20 * time.Millisecond) {
					ctx, cancel := context.WithDeadline(context.Background(), l.Deadline())
					other, err := b.Acquire(ctx, req("k", maxTTL))
					now := time.Now()
					cancel()
					if err == nil && now.Before(l.Deadline()) {
						t.Fatalf("a second owner got the key %v before the deadline of %v", l.Deadline().Sub(now), other)
					}
					if err == nil {
						_ = other.Release(context.Background())
					}
					if now.Before(l.Deadline()) {
						tries++
					}
				}
			}
			// After the lost lease has expired, the node votes again, and a waiter gets the key.
			ctx, cancel := context.WithTimeout(context.Background(), maxTTL+soon)
			defer cancel()
			next, err := b.Acquire(ctx, waiting("k", maxTTL))
			if err != nil {
				t.Fatal(err)
			}
			release(t, next)

			// The counter-proof: if an operator declares that nothing was lost, the guard is off, and a second owner gets in.
			until(t, 2*maxTTL, "all nodes vote", func() bool {
				l, err := b.Acquire(context.Background(), req("warm", maxTTL))
				if err != nil {
					return false
				}
				defer func() { _ = l.Release(context.Background()) }() // it may have expired
				return len(f.keys(f.nodes[0])) == 1 && b.voters(t, f) == 3
			})
			l = hold()
			forget(f.nodes[1])
			f.bless(f.nodes[1])
			var other backend.Lease
			until(t, soon, "a second owner gets in without the guard", func() bool {
				var err error
				other, err = b.Acquire(context.Background(), req("k", maxTTL))
				return err == nil
			})
			if !time.Now().Before(l.Deadline()) {
				t.Skip("the machine is too slow for the counter-proof")
			}
			_ = other.Release(context.Background())
		})
	}
}

// voters returns how many nodes have a vote. It requests a key from each of them.
func (r *Backend) voters(t testing.TB, f *fleet) (n int) {
	e := r.newElection(r.newClaim(req("voters", minTTL), minTTL))
	for i, node := range r.nodes {
		if v, err := voted(e, i); err == nil && r.checkVote(node, v) == nil {
			n++
		}
	}
	_ = f.evict(context.Background(), "voters")
	return n
}

// Renewals keep a lease while every node restarts without its data, one after the other.
func TestSequentialRestarts(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "six restarts, each followed by MaxTTL")
	const maxTTL = 3 * time.Second // long enough to start a server on any machine
	f := startFleet(t, 3)
	f.bootstrap()
	a, b := f.open(paramMaxTTL+"="+maxTTL.String()), f.open(paramMaxTTL+"="+maxTTL.String())
	l := acquire(t, a, req("k", maxTTL))
	ctx := context.Background()
	renewing, done := context.WithCancel(ctx)
	var renewer sync.WaitGroup
	renewer.Go(func() { // concurrently, because the rest may take long
		for kit.Sleep(renewing, 50*time.Millisecond) == nil {
			_ = l.Renew(ctx, maxTTL)
		}
	})
	defer renewer.Wait()
	defer done()
	for round := range 2 {
		for i, n := range f.nodes {
			n.Kill()
			n.Start()
			for begun := time.Now(); time.Since(begun) < maxTTL+500*time.Millisecond; time.Sleep(50 * time.Millisecond) {
				select {
				case <-l.Lost():
					t.Fatalf("round %d: lost after the restart of node %d", round, i)
				default:
				}
				if _, err := b.Acquire(ctx, req("k", maxTTL)); err == nil {
					t.Fatalf("round %d: a second owner after the restart of node %d", round, i)
				}
			}
		}
	}
	done()
	renewer.Wait()
	release(t, l)
	until(t, soon, "no node has a key", func() bool {
		return len(f.keys(f.nodes[0]))+len(f.keys(f.nodes[1]))+len(f.keys(f.nodes[2])) == 0
	})
}

// Servers that keep every write keep their vote across a restart.
func TestDurableRestart(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open(paramMaxTTL + "=1h")
	l := acquire(t, r, req("k", time.Hour))
	for _, n := range f.nodes {
		n.Kill()
		n.Start()
	}
	until(t, soon, "all nodes vote", func() bool { return r.voters(t, f) == 3 })
	if _, err := r.Acquire(context.Background(), req("k", time.Hour)); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("a held key after a restart of all nodes: %v", err)
	}
	if err := l.Renew(context.Background(), time.Hour); err != nil {
		t.Error(err)
	}
}

// A node that restarts with the data of another node has no vote, even if a client makes handshakes with both at once.
func TestCopiedData(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	if n := f.open().voters(t, f); n != 3 {
		t.Fatalf("%d nodes vote, want 3", n)
	}
	birth := newNaming(endpoint.DefaultNamespace).birth()
	record := redistest.Raw(t, f.nodes[1].Addr).Get(t.Context(), birth).Val()
	if err := redistest.Raw(t, f.nodes[2].Addr).Set(t.Context(), birth, record, 0).Err(); err != nil {
		t.Fatal(err)
	}
	f.nodes[2].Kill()
	f.nodes[2].Start()
	if n := f.open().voters(t, f); n != 2 {
		t.Errorf("%d nodes vote, two of them by one node's data; want 2", n)
	}
}

// A new fleet has no vote for as long as a lease may last, because it cannot know that it is new. The error names the
// reason, and a waiter waits. Bootstrap gives the nodes their votes at once.
func TestNewFleet(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	const maxTTL = 3 * time.Second
	r := f.open(paramMaxTTL + "=" + maxTTL.String())
	_, err := r.Acquire(context.Background(), req("k", maxTTL))
	if err == nil || errors.Is(err, backend.ErrHeld) || !strings.Contains(err.Error(), paramMaxTTL) {
		t.Fatalf("acquire from a new fleet: %v", err)
	}
	for _, n := range f.nodes {
		until(t, soon, "a failed acquire leaves no key", func() bool { return len(f.keys(n)) == 0 })
	}
	begun := time.Now()
	release(t, acquire(t, r, waiting("k", maxTTL)))
	t.Logf("granted after %v", time.Since(begun))

	f = startFleet(t, 3)
	r = f.open(paramMaxTTL + "=1h")
	if _, err := r.Acquire(context.Background(), req("k", time.Hour)); err == nil {
		t.Fatal("a new fleet has granted a key")
	}
	if err := r.Bootstrap(context.Background()); err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, r, req("k", time.Hour)))
	if err := r.Bootstrap(context.Background()); err != nil {
		t.Errorf("a second time: %v", err)
	}
	other, err := openURL(context.Background(), f.url(paramMaxTTL+"=2h"))
	if err == nil {
		_ = other.Close()
		t.Fatal("a client with another longest TTL was let in")
	}
	if !strings.Contains(err.Error(), "1h0m0s") || !strings.Contains(err.Error(), paramMaxTTL) {
		t.Errorf("a client with another longest TTL: %v", err)
	}
	if _, err := r.Acquire(context.Background(), req("k", time.Hour+time.Second)); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("a TTL over the longest: %v", err)
	}
	l := acquire(t, r, req("k", time.Hour))
	if err := l.Renew(context.Background(), time.Hour+time.Second); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("a renewal over the longest TTL: %v", err)
	}
	release(t, l)
}

// Bootstrap does nothing if its context has ended.
func TestBootstrapWhoseContextHasEnded(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	r := f.open()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Bootstrap(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's error", err)
	}
	waitIdle(t, r)
	if n := r.voters(t, f); n != 0 {
		t.Errorf("%d nodes vote", n)
	}
}

// If a birth record is in the future, because the clock was set back since, the node has no vote for MaxTTL from now,
// as if the record were new.
func TestBirthInTheFuture(t *testing.T) {
	for how, restart := range map[string]bool{"running": false, "restarted": true} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			const maxTTL = 2 * time.Second
			f := startFleet(t, 3, redistest.Durable...)
			f.bootstrap()
			r := f.open(paramMaxTTL + "=" + maxTTL.String())
			release(t, acquire(t, r, req("k", maxTTL)))
			waitIdle(t, r)
			ctx := context.Background()
			for _, n := range f.nodes {
				c := redistest.Raw(t, n.Addr)
				record := c.Get(ctx, r.naming.birth()).Val()
				_, rest, _ := strings.Cut(record, ":")
				future := fmt.Sprint(time.Now().Add(time.Hour).UnixMilli(), ":", rest)
				if err := c.Set(ctx, r.naming.birth(), future, 0).Err(); err != nil {
					t.Fatal(err)
				}
				if restart {
					n.Kill()
					n.Start()
				}
			}
			begun := time.Now()
			if restart { // the connections of the old client are broken
				r = f.open(paramMaxTTL + "=" + maxTTL.String())
			}
			ctx, cancel := context.WithTimeout(ctx, maxTTL+soon)
			defer cancel()
			l, err := r.Acquire(ctx, waiting("k", maxTTL))
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took < maxTTL {
				t.Errorf("the nodes vote again after %v, less than %v", took, maxTTL)
			}
			_ = l.Release(context.Background()) // it may have expired
		})
	}
}
