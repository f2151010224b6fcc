package redlock

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/redistest"
)

func TestServerClock(t *testing.T) {
	begun := time.Now()
	at := func(ours, theirs, trip time.Duration) clockSample {
		return clockSample{(time.Hour + theirs).Microseconds(), begun.Add(ours), begun.Add(ours + trip)}
	}
	for name, c := range map[string]struct {
		samples []clockSample
		step    time.Duration // of the last sample, rounded to 100 ms
	}{
		"steady":         {[]clockSample{at(0, 0, 0), at(time.Second, time.Second, 0)}, 0},
		"slow answer":    {[]clockSample{at(0, 0, 0), at(time.Second, 2*time.Second, time.Second)}, 0},
		"slow before":    {[]clockSample{at(0, 0, time.Second), at(time.Second, 0, 0)}, 0},
		"within":         {[]clockSample{at(0, 0, 0), at(10*time.Second, 10*time.Second+140*time.Millisecond, 0)}, 0},
		"forward":        {[]clockSample{at(0, 0, 0), at(time.Second, 3*time.Second, 0)}, 2 * time.Second},
		"back":           {[]clockSample{at(0, 0, 0), at(time.Second, -time.Second, 0)}, -2 * time.Second},
		"out of order":   {[]clockSample{at(time.Second, time.Second, 0), at(0, 0, 0)}, 0},
		"after the step": {[]clockSample{at(0, 0, 0), at(1, time.Hour, 0), at(time.Second, time.Hour+time.Second, 0)}, 0},
		"fast in portions": {[]clockSample{
			at(0, 0, 0), at(1000*time.Millisecond, 1030*time.Millisecond, 0),
			at(1300*time.Millisecond, 1339*time.Millisecond, 0),
			at(1600*time.Millisecond, 1700*time.Millisecond, 0),
		}, 100 * time.Millisecond},
	} {
		var clock serverClock
		var step time.Duration
		for _, s := range c.samples {
			step = clock.observe(s)
		}
		if step.Round(100*time.Millisecond) != c.step {
			t.Errorf("%s: step of %v, want %v", name, step, c.step)
		}
	}
}

// clockIn finds the server's time in the reply to an acquire, after the result.
var clockIn = regexp.MustCompile(`\$\d+\r\n[a-z]+\r\n:\d{16}\r\n`)

// setClock shifts the server's time in the proxy's replies by off.
func setClock(p *storetest.Proxy, off time.Duration) {
	p.Set(func(p *storetest.Proxy) {
		p.Replies = func(piece []byte) bool {
			for _, at := range clockIn.FindAllIndex(piece, -1) {
				digits := piece[at[1]-18 : at[1]-2]
				us, err := strconv.ParseInt(string(digits), 10, 64)
				if err == nil {
					copy(digits, strconv.FormatInt(us+off.Microseconds(), 10))
				}
			}
			return true
		}
	})
}

// If a node's clock is set forward, the node has ended leases early. So it has no vote until those leases have expired,
// and not only at the first request. If a node's clock is set back, which ends no lease early, the node keeps its vote.
func TestClockJump(t *testing.T) {
	t.Parallel()
	const maxTTL = 5 * time.Second // longer than a busy machine pauses at a time
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	p := storetest.NewProxy(t, f.nodes[1].Addr)
	r := opened(t, through([]string{f.nodes[0].Addr, p.Addr, f.nodes[2].Addr}, paramMaxTTL+"="+maxTTL.String()))
	ctx := context.Background()
	vote := func() error {
		for {
			e := r.newElection(r.newClaim(req("k", time.Second), time.Second))
			v, err := voted(e, 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.evict(ctx, "k"); err != nil {
				t.Fatal(err)
			}
			// A slow reply does not show the step.
			if v.clock.received.Sub(v.clock.sent) < 100*time.Millisecond {
				return r.checkVote(r.nodes[1], v)
			}
		}
	}
	if err := vote(); err != nil {
		t.Fatal(err)
	}
	setClock(p, 300*time.Millisecond)
	begun := time.Now()
	for ; ; time.Sleep(50 * time.Millisecond) {
		err := vote()
		if time.Since(begun) >= maxTTL {
			break
		}
		if err == nil || !strings.Contains(err.Error(), "forward") {
			t.Fatalf("%v after a step forward the node's vote counts: %v", time.Since(begun), err)
		}
	}
	setClock(p, 600*time.Millisecond)
	if err := vote(); err == nil {
		t.Fatal("after another step forward the node's vote counts")
	}
	// Without this node, a quorum needs both others.
	lock := newNaming(endpoint.DefaultNamespace).lock("k")
	if err := redistest.Raw(t, f.nodes[2].Addr).Set(ctx, lock, "1:1:0123456789abcdefsomebody",
		time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if l, err := r.Acquire(ctx, req("k", time.Second)); err == nil {
		t.Fatalf("granted with the vote of a node whose clock was set forward: %v", l)
	}
	if err := f.evict(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	until(t, maxTTL+soon, "it votes again", func() bool { return vote() == nil })
	setClock(p, 0)
	if err := vote(); err != nil {
		t.Fatalf("after a step back: %v", err)
	}
}

// Nodes count together only if all their clocks agree. It is not enough if they agree with the clock of one of them.
func TestVotersClocksAgree(t *testing.T) {
	begun := time.Now()
	for _, c := range []struct {
		ahead []int         // ms, of the voters' clocks
		took  time.Duration // for their replies
		count int
	}{
		{[]int{0, 250, 500}, 0, 3},
		{[]int{-450, 0, 450}, 0, 2},
		{[]int{0, 450, -450}, 0, 2},
		{[]int{0, 450, 0, -450, 0}, 0, 4},
		{[]int{0, 3600_000, 0}, 0, 2},
		{[]int{-300, 0, 300}, 200 * time.Millisecond, 3}, // the clocks may agree
		{[]int{-450, 0, 450}, 200 * time.Millisecond, 2},
	} {
		e := &election{t: new(tally)}
		for _, ms := range c.ahead {
			clock := time.Hour + time.Duration(ms)*time.Millisecond
			e.t.verdicts = append(e.t.verdicts, yes)
			e.votes = append(e.votes, vote{clock: clockSample{clock.Microseconds(), begun, begun.Add(c.took)}})
		}
		if got := len(e.electors()); got != c.count {
			t.Errorf("clocks %v ms ahead, answers that took %v: %d count together, want %d", c.ahead, c.took, got, c.count)
		}
	}
}

// A client that contacts a node for the first time detects that the node's clock was set forward: it compares the clock
// with those of the other nodes.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	p := storetest.NewProxy(t, f.nodes[1].Addr)
	setClock(p, time.Hour)
	r := opened(t, through([]string{f.nodes[0].Addr, p.Addr, f.nodes[2].Addr}, patient))
	ctx := context.Background()
	// With all three nodes, two clocks agree.
	release(t, acquire(t, r, req("k", claimTTL)))
	// Without node 2, the two remaining clocks differ, so there is no quorum.
	f.nodes[2].Kill()
	var err error
	until(t, soon, "no node has the released lease any more", func() bool {
		var l backend.Lease
		if l, err = r.Acquire(ctx, req("k", claimTTL)); err == nil {
			t.Fatalf("granted by nodes whose clocks are an hour apart: %v", l)
		}
		return !errors.Is(err, backend.ErrHeld)
	})
	if !strings.Contains(err.Error(), "clock") {
		t.Errorf("%v, want it to speak of clocks", err)
	}
	f.nodes[2].Start()
	until(t, soon, "granted again", func() bool {
		l, err := r.Acquire(ctx, req("k", claimTTL))
		if err == nil {
			release(t, l)
		}
		return err == nil
	})
}
