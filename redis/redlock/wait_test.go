package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/exchange"
	"github.com/anylock/lock/redis/internal/redistest"
)

// If a waiter's context ends, the error reports that the key is held, or that there was no quorum. Without a quorum,
// other calls fail with ErrUnavailable.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	l := acquire(t, r, req("k", 30*time.Second))
	f.whole(r, l) // so that no node counts as free of the key
	wait := func() error {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		_, err := r.Acquire(ctx, waiting("k", 30*time.Second))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a waiter whose context ended: %v", err)
		}
		return err
	}
	err := wait()
	// on a busy machine, a reply may be late now and then
	for n := 1; n < attempts && !errors.Is(err, backend.ErrHeld); n++ {
		err = wait()
	}
	if !errors.Is(err, backend.ErrHeld) || errors.Is(err, backend.ErrUnavailable) ||
		!strings.Contains(err.Error(), "held by") {
		t.Errorf("a waiter for a held key: %v", err)
	}
	for _, n := range f.nodes[1:] {
		n.Freeze()
		defer n.Thaw()
	}
	if err := wait(); errors.Is(err, backend.ErrHeld) || !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a waiter with two of three nodes frozen: %v", err)
	}
	_, err = r.Acquire(context.Background(), req("k", 30*time.Second))
	if !errors.Is(err, backend.ErrUnavailable) || kit.IsContextError(err) || errors.Is(err, backend.ErrHeld) {
		t.Errorf("acquire with two of three nodes frozen: %v", err)
	}
	if err := l.Renew(context.Background(), 30*time.Second); !errors.Is(err, backend.ErrUnavailable) ||
		kit.IsContextError(err) {
		t.Errorf("renewal with two of three nodes frozen: %v", err)
	}
	if err := l.Release(context.Background()); !errors.Is(err, backend.ErrUnavailable) || kit.IsContextError(err) {
		t.Errorf("release with two of three nodes frozen: %v", err)
	}
}

// Errors name the nodes that have no vote yet, until when, and why: the error of an Acquire that does not wait, the
// error at the end of a wait, and that of NotReady.
func TestNotReady(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	r := f.open()
	waitIdle(t, r) // opening does not wait for a slow node
	says := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrHeld) {
			t.Fatalf("%s: %v", what, err)
		}
		for _, n := range f.nodes {
			if part := n.Addr + ": no vote until "; !strings.Contains(err.Error(), part) ||
				!strings.Contains(err.Error(), whyYoung) {
				t.Errorf("%s: %q does not say %q and why", what, err, part)
			}
		}
	}
	says("a fleet just opened", r.NotReady())
	_, err := r.Acquire(context.Background(), req("k", time.Second))
	says("acquire without waiting", err)
	waitIdle(t, r) // on a slow machine, its cleanup may still be in progress
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err = r.Acquire(ctx, waiting("k", time.Second))
	says("a waiting acquire", err)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a waiting acquire whose context ended: %v", err)
	}
	f.bless(f.nodes[0])
	f.bless(f.nodes[1])
	release(t, acquire(t, r, waiting("k", time.Minute)))
	if err := r.NotReady(); err != nil {
		t.Errorf("two of three nodes vote: %v", err)
	}
	other := f.open()
	if err := other.NotReady(); err != nil {
		t.Errorf("two of three nodes vote, to a client just opened: %v", err)
	}
}

// After an outage in which handshakes failed, NotReady is nil as soon as the nodes reply again, even if nobody acquires
// a key: a readiness probe that keeps the work away must recover by itself.
func TestReadyAgainWithoutAcquire(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	proxies, addrs := f.proxies()
	r := opened(t, through(addrs))
	waitIdle(t, r) // opening does not wait for a slow node
	for _, p := range proxies[:2] {
		p.Refuse(true)
		p.Cut()
	}
	if _, err := r.Examine(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.NotReady(); !errors.Is(err, backend.ErrUnavailable) {
		t.Fatalf("without a quorum: %v, want ErrUnavailable", err)
	}
	for _, p := range proxies[:2] {
		p.Refuse(false)
	}
	until(t, 2*soon, "the fleet is ready", func() bool {
		_, _ = r.Inspect(t.Context(), "k")
		return r.NotReady() == nil
	})
}

// A waiter skips a node that is slow to report whether the key is still held. Otherwise it would often request votes
// from all nodes.
func TestWaiterPassesSlowNode(t *testing.T) {
	// not parallel, because other tests make all nodes slow
	const ttl, idle = time.Minute, 2 * time.Second
	f := startFleet(t, 3)
	f.bootstrap()
	p := storetest.NewProxy(t, f.nodes[1].Addr)
	holder := f.open()
	waiter := opened(t, through([]string{f.nodes[0].Addr, p.Addr, f.nodes[2].Addr}))
	l := acquire(t, holder, req("k", ttl))
	f.whole(holder, l)
	done := startAcquire(context.Background(), waiter, waiting("k", ttl))
	until(t, soon, "the waiter has been refused and looks at the key", func() bool { return f.looks(1) > 0 })
	p.Set(func(p *storetest.Proxy) { p.Delay = nodeTimeout(ttl) * 3 / 2 })
	const most = 5                  // 11 to 15, and 20 at the slow node, if it is not skipped
	for attempt := 1; ; attempt++ { // on a busy machine all nodes are slow now and then
		asked := 0
		for i, diff := range f.during(idle) {
			t.Logf("node %d was asked for its vote %d times in %v: %v", i, diff["evalsha"], idle, diff)
			asked = max(asked, diff["evalsha"])
		}
		if asked <= most {
			break
		}
		if attempt == attempts {
			t.Errorf("a node was asked for its vote %d times in %v, want at most %d", asked, idle, most)
			break
		}
	}
	release(t, l)
	release(t, granted(t, done, soon).Lease)
}

// during returns the commands that each node executes within d.
func (f *fleet) during(d time.Duration) (diffs []map[string]int) {
	f.t.Helper()
	var before []map[string]int
	for _, n := range f.nodes {
		before = append(before, redistest.Commands(f.t, redistest.Raw(f.t, n.Addr)))
	}
	time.Sleep(d) // sleeps: the period over which commands are counted
	for i, n := range f.nodes {
		diff, _ := redistest.Since(before[i], redistest.Commands(f.t, redistest.Raw(f.t, n.Addr)))
		diffs = append(diffs, diff)
	}
	return diffs
}

// A waiter for a key that stays held sends few commands to the nodes, and gets the key soon after the release.
func TestIdleWaiter(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	f.bootstrap()
	holder, waiter := f.open(), f.open()
	const ttl, idle, keys = time.Minute, 3 * time.Second, 20
	l := acquire(t, holder, req("idle", ttl))
	f.whole(holder, l) // the waiter would request the vote of a node without the lease
	done := startAcquire(context.Background(), waiter, waiting("idle", ttl))
	time.Sleep(500 * time.Millisecond) // sleeps: the pauses of the waiter must grow
	const most = 15
	for attempt := 1; ; attempt++ { // if a node is slow now and then, the waiter contacts all nodes
		highest := 0.0
		for i, diff := range f.during(idle) {
			_, sum := redistest.Since(nil, diff)
			rate := float64(sum) / idle.Seconds()
			t.Logf("node %d: %.1f commands/s: %v", i, rate, diff)
			highest = max(highest, rate)
		}
		if highest <= most {
			break
		}
		if attempt == attempts {
			t.Errorf("%.0f commands/s at a node for one idle waiter, want at most %d", highest, most)
			break
		}
	}
	release(t, l)
	release(t, granted(t, done, soon).Lease)

	var delays []time.Duration
	var leases []backend.Lease
	var waits []<-chan outcome
	for i := range keys {
		leases = append(leases, acquire(t, holder, req(fmt.Sprint("k", i), ttl)))
		waits = append(waits, startAcquire(context.Background(), waiter, waiting(fmt.Sprint("k", i), ttl)))
	}
	time.Sleep(time.Second) // sleeps: the pauses of the waiters must grow
	for i, l := range leases {
		begun := time.Now()
		release(t, l)
		got := granted(t, waits[i], soon)
		delays = append(delays, got.At.Sub(begun))
		release(t, got.Lease)
	}
	slices.Sort(delays)
	t.Logf("from the call of Release to the grant: p50 %v, most %v", delays[keys/2], delays[keys-1])
}

// A waiter requests the key if a quorum is free of it and the other nodes have missed the release, wherever they are in
// the list, and even if the last request to one of the free nodes got no reply.
func TestWaiterFindsReleaseThatNodesMissed(t *testing.T) {
	t.Parallel()
	for _, missed := range [][]bool{{false, false, true}, {false, true, false, true, false}} {
		var nodes []*fakeNode
		for _, has := range missed {
			remaining := keyAbsent
			if has {
				remaining = time.Minute
			}
			nodes = append(nodes, &fakeNode{reply: remaining.Milliseconds()})
		}
		for _, unresponsive := range []bool{false, true} {
			r := onNodes(t, nodes...)
			if unresponsive {
				r.nodes[0].noteReply(exchange.ErrNoAnswer, 0)
			}
			w := r.newCandidate(waiting("k", time.Minute))
			w.busy = new(backend.HeldError)
			const most = 1000
			peeks := 1
			for peeks < most && w.peek(t.Context()) {
				peeks++
			}
			t.Logf("%v, one node unresponsive: %v: %d peeks", missed, unresponsive, peeks)
			if peeks == most {
				t.Errorf("%v, one node unresponsive: %v: the key always seems held", missed, unresponsive)
			}
		}
	}
}

// Waiters check a node that does not reply once a second.
func TestWaitersSpareSilentNode(t *testing.T) {
	t.Parallel()
	silent, holds := freeNode(), &fakeNode{reply: time.Minute.Milliseconds()}
	silent.down.Store(true)
	r := onNodes(t, silent, holds, holds)
	w := r.newCandidate(waiting("k", time.Minute))
	w.busy = new(backend.HeldError)
	begun := time.Now()
	for range 300 {
		if !w.peek(t.Context()) {
			t.Fatal("the key seems free")
		}
	}
	most := 1 + int32(time.Since(begun)/time.Second)
	if got := silent.requests.Load(); got < 1 || got > most {
		t.Errorf("%d requests to a node that does not reply, want 1 to %d", got, most)
	}
}

// A waiter whose context ends while it checks the nodes sends no vote requests any more.
func TestNoAttemptAfterTheEnd(t *testing.T) {
	t.Parallel()
	silent := freeNode()
	silent.down.Store(true)
	r := onNodes(t, silent, silent, silent)
	w := r.newCandidate(waiting("k", time.Minute))
	w.busy = new(backend.HeldError)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.try(ctx); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("%v, want ErrHeld", err)
	}
	waitIdle(t, r)
	if got := silent.requests.Load(); got > 1 {
		t.Errorf("%d requests, want only the check of one node", got)
	}
}

// A waiter's first attempt is repeated while enough nodes have no vote yet. A node without a vote does not make the
// others count as unreachable: for a while, the attempt is also repeated while they do not respond.
func TestRepeatsBesideNodeWithoutVote(t *testing.T) {
	barred := &noVoteError{time.Now().Add(time.Minute), whyYoung}
	down := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, test := range []struct {
		errs         []error
		early, later bool // whether the attempt is repeated
	}{
		{[]error{barred, exchange.ErrNoAnswer, exchange.ErrNoAnswer}, true, false},
		{[]error{barred, barred, exchange.ErrNoAnswer}, true, true},
		{[]error{barred, nil, down}, true, true},
		{[]error{barred, exchange.ErrNoAnswer, down}, true, false},
		{[]error{exchange.ErrNoAnswer, down, down}, false, false},
		{[]error{exchange.ErrNoAnswer, &backend.HeldError{}, exchange.ErrNoAnswer}, true, false},
	} {
		e := &noQuorumError{quorum: 2, errs: test.errs}
		if early, later := e.mayPass(true), e.mayPass(false); early != test.early || later != test.later {
			t.Errorf("%v: repeated early: %v, later: %v", test.errs, early, later)
		}
	}
}

// The error of a node without a vote names the time of the vote, whenever the error is printed.
func TestNoVoteNamesTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(time.Minute)
		n := &node{noVoteUntil: until}
		err := n.notReady()
		time.Sleep(20 * time.Second) // sleeps: until the error is printed
		for _, part := range []string{"until " + until.Format(time.TimeOnly), "for 40s more"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v, want it to say %q", err, part)
			}
		}
	})
}
