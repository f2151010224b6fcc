package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/anylock/lock/redis/internal/exchange"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/redistest"
)

const claimTTL = 30 * time.Second

// A request of a withdrawn attempt may run only after the next attempt has been granted, because its goroutine was
// delayed. It changes nothing on the node, and the release still removes the lease there.
func TestStraggler(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	for stragglers := 1; stragglers <= 3; stragglers++ {
		q := req(fmt.Sprint("k", stragglers), claimTTL)
		c := r.newClaim(q, claimTTL)
		old := r.newElection(c)
		r.withdraw(c, old.number)
		l := elected(t, r, q, c)
		for i := range stragglers {
			asked(old, i)
		}
		release(t, l)
		f.free(q.Key)
	}
}

// A request that was withdrawn before it was sent fails with ErrLost, and leaves no key.
func TestGivenUpBeforeSending(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	c := r.newClaim(req("k", claimTTL), claimTTL)
	old := r.newElection(c)
	r.withdraw(c, old.number)
	for i := range r.nodes {
		if _, err := voted(old, i); !errors.Is(err, backend.ErrLost) {
			t.Errorf("a request of an attempt that was given up: %v", err)
		}
	}
	f.free("k")
}

// A node may refuse a request without reading the key, for example because the node belongs to another fleet. The
// refusal does not show that the node has no key of an earlier attempt, so that key is still removed.
func TestRefusedUnseen(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	c := r.newClaim(req("k", claimTTL), claimTTL)
	first, second := r.newElection(c), r.newElection(c)
	for i := range r.nodes {
		if v, err := voted(first, i); err != nil || v.result != voteGranted {
			t.Fatal(v, err)
		}
	}
	met := r.nodes[2].lastHandshake()
	other := fmt.Sprintf("1:%d:%s:%s", claimTTL.Milliseconds(), newID(), met.run)
	if err := redistest.Raw(t, f.nodes[2].Addr).Set(context.Background(), r.naming.birth(), other, 0).Err(); err != nil {
		t.Fatal(err)
	}
	for i := range r.nodes {
		var want error
		if i == 2 {
			want = errNeedsHandshake
		}
		if v, err := voted(second, i); !errors.Is(err, want) {
			t.Fatal(i, v, err)
		}
	}
	r.abandon(c)
	f.free("k")
}

// If two renewals find that a node has lost a lease, both put the lease back. The second repair finds it there, and the
// release removes it.
func TestRepairedTwice(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	q := req("k", claimTTL)
	c := r.newClaim(q, claimTTL)
	l := elected(t, r, q, c)
	f.whole(r, l)
	if err := redistest.Raw(t, f.nodes[2].Addr).Del(context.Background(), r.naming.lock("k")).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.repairAt(2, &renewal{claim: c, ttl: claimTTL, number: c.number.Add(1), sent: time.Now()})
		done := make(chan struct{})
		c.inOrder(2, func() { close(done) })
		<-done
		c.requestEnded(2)
		if len(f.having("k")) != 3 {
			t.Fatal("the lease is not back")
		}
	}
	release(t, l)
	f.free("k")
}

// A node that has lost a lease gets it back at the next renewal, even if the node replies later than a quorum.
func TestRepairedLate(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	p := storetest.NewProxy(t, f.nodes[2].Addr)
	r := opened(t, through([]string{f.nodes[0].Addr, f.nodes[1].Addr, p.Addr}))
	l := acquire(t, r, req("k", claimTTL))
	f.whole(r, l)
	if err := redistest.Raw(t, f.nodes[2].Addr).Del(context.Background(), r.naming.lock("k")).Err(); err != nil {
		t.Fatal(err)
	}
	p.Set(func(p *storetest.Proxy) { p.Delay = 200 * time.Millisecond })
	if err := l.Renew(context.Background(), claimTTL); err != nil {
		t.Fatal(err)
	}
	until(t, soon, "the lease is back", func() bool { return len(f.having("k")) == 3 })
	p.Set(func(p *storetest.Proxy) { p.Delay = 0 })
	release(t, l)
	f.free("k")
}

// If a vote request reaches a node twice, the node repeats its reply. The vote still counts, and the key is still
// removed afterwards.
func TestRepeatedVote(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	q := req("k", claimTTL)
	c := r.newClaim(q, claimTTL)
	e := r.newElection(c)
	for i, n := range r.nodes {
		first, err := requested(e, n)
		if err != nil || first.result != voteGranted {
			t.Fatal(first, err)
		}
		again, err := voted(e, i)
		if err != nil || again.result != voteGranted || again.token != first.token {
			t.Errorf("node %d: a repeated request gets %q, token %d; the first %q, %d: %v", i, again.result,
				again.token, first.result, first.token, err)
		}
	}
	r.abandon(c)
	f.free("k")
}

// A voteReply is a node's reply to a vote request.
type voteReply struct {
	vote vote
	err  error
}

// voted requests the vote of node i, and returns it.
func voted(e *election, i int) (vote, error) {
	done := make(chan voteReply, 1)
	e.sendVoteRequest(i, func(v vote, err error) { done <- voteReply{v, err} })
	s := <-done
	return s.vote, s.err
}

// requested is like voted, but makes no handshake, and does not record the reply in the claim.
func requested(e *election, n *node) (vote, error) {
	done := make(chan voteReply, 1)
	e.sendOnce(n, func(v vote, err error) { done <- voteReply{v, err} })
	s := <-done
	return s.vote, s.err
}

// asked requests the verdict of node i, and waits for it.
func asked(e *election, i int) {
	done := make(chan struct{})
	e.requestVote(i, func(func(), error) { close(done) })
	<-done
}

// elected makes an attempt for the claim, which must succeed, and returns the lease.
func elected(t *testing.T, r *Backend, q backend.Request, c *claim) backend.Lease {
	t.Helper()
	a := &candidate{r: r, q: q, c: c}
	l, err := a.elect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// having returns the nodes that have key.
func (f *fleet) having(key string) (nodes []int) {
	f.t.Helper()
	for i, n := range f.nodes {
		if slices.Contains(f.keys(n), newNaming(endpoint.DefaultNamespace).lock(key)) {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// free waits until no node has key.
func (f *fleet) free(key string) {
	f.t.Helper()
	until(f.t, soon, "no node has "+key, func() bool { return len(f.having(key)) == 0 })
}

// If a renewal finds that a quorum has lost the lease, no key remains on the nodes that it has renewed.
func TestLostAtRenewalLeavesNothing(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	l := acquire(t, r, req("k", claimTTL))
	f.whole(r, l)
	for _, n := range f.nodes[1:] {
		if err := redistest.Raw(t, n.Addr).Del(context.Background(), r.naming.lock("k")).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Renew(context.Background(), claimTTL); !errors.Is(err, backend.ErrLost) {
		t.Fatalf("renewal of a lease that a minority has: %v", err)
	}
	f.free("k")
}

// If a node hangs whose reply decides whether the lease was lost, a release succeeds once a quorum is free of the
// lease.
func TestReleaseWithoutANode(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	l := acquire(t, r, req("k", claimTTL))
	f.whole(r, l)
	if err := redistest.Raw(t, f.nodes[1].Addr).Del(context.Background(), r.naming.lock("k")).Err(); err != nil {
		t.Fatal(err)
	}
	f.nodes[2].Freeze()
	err := l.Release(context.Background())
	f.nodes[2].Thaw()
	if err != nil {
		t.Errorf("one node removed the lease, one had lost it, one hangs: %v", err)
	}
	f.free("k")

	f.nodes[1].Kill()
	l = acquire(t, r, req("two", claimTTL))
	f.nodes[1].Start()
	f.bless(f.nodes[1])
	f.nodes[2].Freeze()
	defer f.nodes[2].Thaw()
	if err := l.Release(context.Background()); err != nil {
		t.Errorf("one node removed the lease, one has never had it, one hangs: %v", err)
	}
	other := f.open() // the key is free
	release(t, acquire(t, other, waiting("two", claimTTL)))
}

// If the replies to a release arrive after the lease's deadline, the release fails with ErrLost, although one node has
// kept the key for longer.
func TestReleaseThatComesLate(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	proxies, addrs := f.proxies()
	r := opened(t, through(addrs))
	lock := r.naming.lock("k")
	const tries = 10
	// on a busy machine the lease may end before it is granted, or before the release begins
	for attempt := 1; ; attempt++ {
		l, err := r.Acquire(t.Context(), waiting("k", ttl))
		if errors.Is(err, backend.ErrLost) && attempt < tries {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if err := redistest.Raw(t, f.nodes[0].Addr).PExpire(t.Context(), lock, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if err := redistest.Raw(t, f.nodes[1].Addr).Del(t.Context(), lock).Err(); err != nil {
			t.Fatal(err)
		}
		f.nodes[2].Freeze()
		for _, p := range proxies[:2] {
			p.Set(func(p *storetest.Proxy) { p.Delay = ttl * 3 / 5 }) // of two replies: the script is unknown
		}
		begun := time.Now()
		err = l.Release(t.Context())
		f.nodes[2].Thaw()
		for _, p := range proxies {
			p.Set(func(p *storetest.Proxy) { p.Delay = 0 })
		}
		switch {
		case !begun.Before(l.Deadline()) && attempt < tries: // so nothing was sent
			if err := redistest.Raw(t, f.nodes[0].Addr).Del(t.Context(), lock).Err(); err != nil {
				t.Fatal(err)
			}
			continue
		case !errors.Is(err, backend.ErrLost):
			t.Errorf("a release that was answered %v after the deadline: %v, want ErrLost", time.Since(l.Deadline()), err)
		}
		break
	}
	f.free("k")
}

// A release without a reply delays Close only for its grace, however long the request timeout is.
func TestCloseBesideAReleaseThatHangs(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	f.bootstrap()
	proxies, addrs := f.proxies()
	r := opened(t, through(addrs, "timeout=20s"))
	l := acquire(t, r, req("k", claimTTL))
	waitIdle(t, r)
	for _, p := range proxies {
		p.Set(func(p *storetest.Proxy) { p.Silent = true })
	}
	done := make(chan error, 1)
	go func() { done <- l.Release(context.Background()) }()
	until(t, soon, "the release is under way", proxies[0].Taken)
	begun := time.Now()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 3*time.Second+soon {
		t.Errorf("Close took %v", took)
	}
	if err := <-done; !errors.Is(err, backend.ErrClosed) {
		t.Errorf("release: %v, want ErrClosed", err)
	}
}

// A release waits for earlier requests of its lease to end, even if they take longer than nodeTimeout.
func TestReleaseWaitsItsTurn(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	f.bootstrap()
	r := f.open()
	q := req("k", claimTTL)
	c := r.newClaim(q, claimTTL)
	l := elected(t, r, q, c)
	for i := range f.nodes {
		c.inOrder(i, func() {
			done := time.AfterFunc(4*nodeTimeout(claimTTL), func() { c.requestEnded(i) })
			t.Cleanup(func() { done.Stop() })
		})
	}
	release(t, l)
	f.free("k")
}

// If all nodes take longer than a second to reply, as for a client on a busy machine, operations wait for them.
func TestSlowNodes(t *testing.T) {
	t.Parallel()
	const delay = 1200 * time.Millisecond
	f := startFleet(t, 3)
	f.bootstrap()
	proxies, addrs := f.proxies()
	r := opened(t, through(addrs, patient))
	cycle := func() {
		t.Helper()
		l := acquire(t, r, req("k", claimTTL))
		if err := l.Renew(context.Background(), claimTTL); err != nil {
			t.Fatalf("renew: %v", err)
		}
		release(t, l)
		until(t, 4*soon, "no node has k", func() bool { return len(f.having("k")) == 0 })
	}
	cycle() // opens the connections and loads the scripts
	for _, p := range proxies {
		p.Set(func(p *storetest.Proxy) { p.Delay = delay })
	}
	cycle()
}

// A release of a lost lease waits for the slow node that decides whether a quorum still had the lease.
func TestReleaseOfLostLeaseWaits(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	f.bootstrap()
	proxies, addrs := f.proxies()
	r := opened(t, through(addrs))
	l := acquire(t, r, req("k", claimTTL))
	f.whole(r, l)
	for _, n := range f.nodes[:2] {
		if err := redistest.Raw(t, n.Addr).Del(context.Background(), r.naming.lock("k")).Err(); err != nil {
			t.Fatal(err)
		}
	}
	proxies[0].Set(func(p *storetest.Proxy) { p.Delay = 4 * nodeTimeout(claimTTL) })
	if err := l.Release(context.Background()); !errors.Is(err, backend.ErrLost) {
		t.Errorf("release of a lease that a minority still had: %v, want ErrLost", err)
	}
}

// If some nodes grant a key and others refuse it, an Acquire waits longer for the slow node that decides.
func TestUndecided(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	p := storetest.NewProxy(t, f.nodes[2].Addr)
	r := opened(t, through([]string{f.nodes[0].Addr, f.nodes[1].Addr, p.Addr}, patient))
	release(t, acquire(t, r, req("warm", claimTTL)))
	if err := redistest.Raw(t, f.nodes[0].Addr).Set(context.Background(), r.naming.lock("k"),
		"1:1:0123456789abcdefsomebody", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	p.Set(func(p *storetest.Proxy) { p.Delay = 3 * nodeTimeout(claimTTL) })
	release(t, acquire(t, r, req("k", claimTTL)))
}

// A waiter that starts while a majority is slow waits for the majority.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	release(t, acquire(t, r, req("warm", claimTTL)))
	for _, n := range f.nodes[:2] {
		n.Freeze()
	}
	done := startAcquire(context.Background(), r, waiting("k", claimTTL))
	thaw := time.AfterFunc(exchange.DefaultTimeout*3/2, func() {
		for _, n := range f.nodes[:2] {
			n.Thaw()
		}
	})
	defer thaw.Stop()
	release(t, granted(t, done, soon).Lease)
	f.free("k")
}
