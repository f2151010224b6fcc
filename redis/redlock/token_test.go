package redlock

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/redistest"
)

// minter checks that the tokens of one key increase.
type minter struct {
	t    *testing.T
	last uint64
}

func (m *minter) next(token uint64, when string) {
	m.t.Helper()
	if token <= m.last || token >= 1<<55 {
		m.t.Fatalf("%s: token %d after %d", when, token, m.last)
	}
	m.last = token
}

// Tokens increase whichever nodes form the quorum. Each grant is by another majority, to another client.
func TestTokensAcrossQuorums(t *testing.T) {
	t.Parallel()
	for _, size := range []int{3, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			if size > 3 {
				storetest.Long(t, "twenty rounds with nodes away")
			}
			f := startFleet(t, size, redistest.Durable...)
			f.bootstrap()
			clients := []*Backend{f.open(), f.open()}
			m := &minter{t: t}
			for round := range 4 * size {
				var out []int
				for k := range size / 2 {
					out = append(out, (round+k*(1+round%2))%size)
				}
				for _, i := range out {
					f.nodes[i].Freeze()
				}
				l := acquire(t, clients[round%2], waiting("k", 30*time.Second))
				m.next(l.Token(), fmt.Sprintf("round %d, without nodes %v", round, out))
				release(t, l)
				for _, i := range out {
					f.nodes[i].Thaw()
				}
				if round%3 == 2 {
					l := acquire(t, clients[1-round%2], waiting("k", 30*time.Second))
					m.next(l.Token(), fmt.Sprintf("round %d, with all nodes", round))
					release(t, l)
				}
			}
		})
	}
}

// If counters differ, the greatest is stored on a quorum before the grant. So the next grant does not need the node
// that had the greatest counter.
func TestTokenIsWrittenBack(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	fence := newNaming(endpoint.DefaultNamespace).fence("k")
	ctx := context.Background()
	m := &minter{t: t}
	for ahead, n := range f.nodes {
		// The counter of one node is far ahead, as if the clock of a client had been wrong.
		counter := m.last + uint64(time.Hour.Microseconds())
		if m.last == 0 {
			counter = uint64(time.Now().Add(time.Hour).UnixMicro())
		}
		if err := redistest.Raw(t, n.Addr).Set(ctx, fence, counter, 0).Err(); err != nil {
			t.Fatal(err)
		}
		others := []int{(ahead + 1) % 3, (ahead + 2) % 3}
		f.nodes[others[0]].Freeze()
		l := acquire(t, r, waiting("k", 30*time.Second))
		m.next(l.Token(), "with the node that is ahead")
		if l.Token() <= counter {
			t.Fatalf("token %d, the counter was %d", l.Token(), counter)
		}
		if h, err := r.Inspect(ctx, "k"); err != nil || h.Token != l.Token() {
			t.Fatalf("inspect: %+v, %v; the lease has %d", h, err, l.Token())
		}
		release(t, l)
		f.nodes[others[0]].Thaw()
		n.Freeze()
		l = acquire(t, r, waiting("k", 30*time.Second))
		m.next(l.Token(), "without it")
		release(t, l)
		n.Thaw()
	}
}

// If every node loses its counters, tokens still increase, by the nodes' clocks.
func TestTokensSurviveLoss(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	f.bootstrap()
	const maxTTL = 2 * time.Second
	r := f.open(paramMaxTTL + "=" + maxTTL.String())
	m := &minter{t: t}
	for range 3 {
		l := acquire(t, r, waiting("k", maxTTL))
		m.next(l.Token(), "grant")
		_ = l.Release(context.Background()) // it may have expired
		for _, n := range f.nodes {
			if err := redistest.Raw(t, n.Addr).FlushAll(context.Background()).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A client whose wall clock is wrong by an hour gets tokens like other clients, because the nodes correct its
// proposals.
func TestProposalIsCorrected(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	ctx := context.Background()
	for _, off := range []time.Duration{-time.Hour, 0, time.Hour} {
		e := r.newElection(r.newClaim(req("k", time.Minute), time.Minute))
		begun := e.t.begun
		e.t.begun = begun.Add(off)
		v, err := voted(e, 0)
		if err != nil || v.result != voteGranted {
			t.Fatalf("vote: %+v, %v", v, err)
		}
		const most = 2 * time.Second
		if at := time.UnixMicro(int64(v.token)); at.Before(begun.Add(-most)) || time.Until(at) > most {
			t.Errorf("with a clock that is %v off the token is %v off", off, time.Until(at))
		}
		if err := f.evict(ctx, "k"); err != nil {
			t.Fatal(err)
		}
	}
}

// A node stores the token that an owner has chosen only if it still has the owner's key: otherwise another owner may have
// had a greater token meanwhile.
func TestChosenTokenNeedsTheKey(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	c := r.newClaim(req("k", time.Minute), time.Minute)
	first := r.newElection(c)
	v, err := voted(first, 0)
	if err != nil || v.result != voteGranted {
		t.Fatalf("vote: %+v, %v", v, err)
	}
	second := r.newElection(c)
	second.chosen = v.token + uint64(time.Hour.Microseconds())
	for i, want := range []string{voteGranted, voteLate} {
		got, err := voted(second, i)
		if err != nil || got.result != want || want == voteGranted && got.token != second.chosen {
			t.Errorf("node %d: %+v, %v, want %s, token %d", i, got, err, want, second.chosen)
		}
	}
	if got := f.having("k"); !slices.Equal(got, []int{0}) {
		t.Errorf("nodes %v have the key, want only 0", got)
	}
	// The counter of the node that stored the token is not lower than the token, and does not go back.
	for _, chosen := range []uint64{second.chosen, v.token} {
		e := r.newElection(c)
		e.chosen = chosen
		if _, err := voted(e, 0); err != nil {
			t.Fatal(err)
		}
		fence := redistest.Raw(t, f.nodes[0].Addr).Get(t.Context(), r.naming.fence("k")).Val()
		if fence != fmt.Sprint(second.chosen) {
			t.Errorf("the counter is %s, want %d", fence, second.chosen)
		}
	}
	r.abandon(c)
	f.free("k")
}

// calls returns how many scripts each node has run.
func (f *fleet) calls() (list []int) {
	f.t.Helper()
	for _, n := range f.nodes {
		c := redistest.Commands(f.t, redistest.Raw(f.t, n.Addr))
		list = append(list, c["evalsha"]+c["eval"])
	}
	return list
}

// Without contention, an acquire, a renewal and a release take one request to every node each. If counters differ, an
// acquire takes two. The driver reports the same numbers.
func TestRoundTrips(t *testing.T) {
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	l := acquire(t, r, req("warm", time.Minute)) // loads the scripts and opens the connections
	if err := l.Renew(context.Background(), time.Minute); err != nil {
		t.Fatal(err)
	}
	release(t, l)
	const rounds = 20
	// measure returns how many requests each node gets per call of do. It returns 0 if the nodes do not all get the same
	// number.
	measure := func(do func(i int)) (per int) {
		before := f.calls()
		for i := range rounds {
			do(i)
		}
		// the last request may still be in flight
		for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			after := f.calls()
			per = (after[0] - before[0]) / rounds
			same := per > 0
			for k := range after {
				same = same && after[k]-before[k] == per*rounds
			}
			if same {
				return per
			}
		}
		return 0
	}
	d := registered(t)
	var leases []backend.Lease
	least := 0
	// If the machine pauses between the requests to two nodes, the counters differ too. Then it measures again, with other
	// keys.
	for attempt := 0; attempt < attempts && least != 1; attempt++ {
		for _, l := range leases {
			release(t, l)
		}
		waitIdle(t, r)
		leases = nil
		least = measure(func(i int) {
			leases = append(leases, acquire(t, r, req(fmt.Sprint("k", attempt, "-", i), time.Minute)))
		})
	}
	if least != 1 {
		t.Errorf("acquire: %d requests to each node, want 1", least)
	}
	if got := fmt.Sprint(measure(func(i int) {
		if err := leases[i].Renew(context.Background(), time.Minute); err != nil {
			t.Fatal(err)
		}
	})); got != d.RoundTrips.Renew {
		t.Errorf("renew: %s requests to each node, want %s", got, d.RoundTrips.Renew)
	}
	if got := fmt.Sprint(measure(func(i int) { release(t, leases[i]) })); got != d.RoundTrips.Release {
		t.Errorf("release: %s requests to each node, want %s", got, d.RoundTrips.Release)
	}

	most := 0
	ctx := context.Background()
	for i := range rounds {
		key := fmt.Sprint("differ", i)
		for k, n := range f.nodes {
			counter := time.Now().Add(time.Duration(k+1) * time.Hour).UnixMicro()
			if err := redistest.Raw(t, n.Addr).Set(ctx, newNaming(endpoint.DefaultNamespace).fence(key), counter,
				redis.KeepTTL).Err(); err != nil {
				t.Fatal(err)
			}
		}
		before := f.calls()
		l := acquire(t, r, req(key, time.Minute))
		after := f.calls()
		for k := range after {
			most = max(most, after[k]-before[k])
		}
		release(t, l)
		waitIdle(t, r)
	}
	if got := fmt.Sprintf("%d-%d", least, most); got != d.RoundTrips.Acquire {
		t.Errorf("acquire takes %s requests to a node, the driver says %s", got, d.RoundTrips.Acquire)
	}
}

func registered(t *testing.T) driver.Driver {
	t.Helper()
	d, err := driver.Lookup("redis+redlock://h1,h2,h3")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The remaining time of a lease is the time for which a quorum has it. It is 0 if it depends on nodes that have not
// replied.
func TestQuorumTTL(t *testing.T) {
	const long, short = time.Minute, time.Second
	for _, c := range []struct {
		answered int // of five nodes
		left     []time.Duration
		want     time.Duration
	}{
		{5, []time.Duration{long, long, long, long, long}, long},
		{5, []time.Duration{short, long, short, long, long}, long},
		{5, []time.Duration{short, long, short, long, short}, short},
		{5, []time.Duration{long, long, long}, long},
		{3, []time.Duration{long, long, long}, long},
		{3, []time.Duration{long, long, short}, 0}, // the other two nodes may have long
		{4, []time.Duration{long, long, long, short}, long},
		{3, []time.Duration{short, short, short}, short},
		{3, []time.Duration{long}, long},
	} {
		verdicts := append(slices.Repeat([]verdict{yes}, c.answered), make([]verdict, 5-c.answered)...)
		tally := &tally{quorum: 3, verdicts: verdicts}
		var answers []backend.Holder
		for _, left := range c.left {
			answers = append(answers, backend.Holder{TTL: left})
		}
		if got := tally.quorumTTL(answers); got != c.want {
			t.Errorf("%d nodes answered, left %v: %v, want %v", c.answered, c.left, got, c.want)
		}
	}
}
