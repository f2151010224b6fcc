package peers

import (
	"fmt"
	"slices"
	"time"

	"github.com/anylock/lock/bench"
)

// A Target is a goal: a ratio to another store in the same run, or a figure of our own store.
type Target struct {
	Set      string
	Scenario string
	Measure  bench.Measure
	Peers    []string // compared with the best of them; none: the figure itself is the target
	Store    string   // our store, unless another is named

	Beside string  // compared with another scenario of the same store, not with peers
	Minus  float64 // subtracted before the comparison, in the measure's unit

	Want float64
	Most bool // at most Want, instead of at least

	Short string // the known reason if the target is not met
}

// Targets lists our targets.
var Targets = append([]Target{
	{Set: "redis", Scenario: "serial", Measure: bench.Rate, Peers: []string{"bare"}, Want: 1},
	{Set: "redis", Scenario: "serial", Measure: bench.Rate, Peers: []string{"rueidislock"}, Want: 1},
	{Set: "redis", Scenario: "distinct-8", Measure: bench.Rate, Peers: []string{"bare"}, Want: 0.9,
		Short: "eight workers fill a pipeline only in part, and a script costs the server more than the peer's SET; with " +
			"64 workers the pipelines outweigh this"},
	{Set: "redis", Scenario: "distinct-8", Measure: bench.Rate, Peers: []string{"rueidislock"}, Want: 1},
	{Set: "redis", Scenario: "distinct", Measure: bench.Rate, Peers: []string{"bare"}, Want: 0.9},
	{Set: "redis", Scenario: "distinct", Measure: bench.Rate, Peers: []string{"rueidislock"}, Want: 1,
		Short: "a cycle costs our process less than the peer's, but the server more: two scripts with 9 commands, which " +
			"count a token and check for waiters; the peer sends 6"},
	{Set: "redis", Scenario: "distinct-256", Measure: bench.Rate, Peers: []string{"bare"}, Want: 0.9},
	{Set: "redis", Scenario: "distinct-256", Measure: bench.Rate, Peers: []string{"rueidislock"}, Want: 1,
		Short: "as with 64 workers"},
	{Set: "redis", Scenario: "hot-local", Measure: bench.Rate, Peers: redisLibraries, Want: 10},
	{Set: "redis-64x1", Scenario: "hot-clients", Measure: bench.P99, Peers: redisLibraries, Want: 0.2, Most: true},
	{Set: "redis-64x1", Scenario: "hot-clients", Measure: bench.Jain, Want: 0.99},
	{Set: "redis-64x1", Scenario: "hot-clients", Measure: bench.Rate, Peers: redisLibraries, Want: 0.9},
	{Set: "redis-64x1", Scenario: "hot-clients", Measure: bench.Requests, Want: 20, Most: true},
	{Set: "redis-8x8", Scenario: "hot-clients", Measure: bench.Rate, Peers: redisLibraries, Want: 1.15},
	{Set: "redis-held", Scenario: "held", Measure: bench.CPU, Peers: []string{"redsync", "rueidislock"}, Want: 0.2,
		Most:  true,
		Short: "some rounds meet the target, others miss it"},
	{Set: "redis-held", Scenario: "held", Measure: bench.Goroutines, Want: 20, Most: true},
	{Set: "redlock", Scenario: "serial", Measure: bench.Rate, Peers: []string{"naive-quorum"}, Want: 1,
		Short: "each node runs a script, which also checks its birth record and counts a token; the peer sends SET"},
	{Set: "redlock", Scenario: "distinct-8", Measure: bench.Rate, Peers: []string{"naive-quorum"}, Want: 1,
		Short: "as with one worker; from 32 workers on, pipelines outweigh the cost of the script"},
	{Set: "redlock", Scenario: "distinct-32", Measure: bench.Rate, Peers: []string{"naive-quorum"}, Want: 1},
	{Set: "redlock", Scenario: "distinct", Measure: bench.Rate, Peers: []string{"naive-quorum"}, Want: 1},
	{Set: "etcd", Scenario: "serial", Measure: bench.Rate, Peers: []string{"etcd-mutex"}, Want: 1,
		Short: "both send two writes per cycle, and the limit is the server, which writes each to disk; some rounds meet " +
			"the target, others miss it"},
	{Set: "etcd", Scenario: "try", Measure: bench.P50, Peers: []string{"etcd-mutex"}, Want: 0.6, Most: true},
	{Set: "etcd", Scenario: "hot-clients", Measure: bench.Rate, Peers: []string{"etcd-mutex"}, Want: 8},
	{Set: "etcd", Scenario: "hot-local", Measure: bench.Rate, Peers: []string{"etcd-mutex"}, Want: 10},
	{Set: "etcd", Scenario: "hot-single", Measure: bench.Rate, Peers: []string{"etcd-mutex"}, Want: 12},
	{Set: "zookeeper", Scenario: "serial", Measure: bench.Rate, Peers: []string{"zk-lock"}, Want: 1.1},
	{Set: "zookeeper", Scenario: "distinct", Measure: bench.Rate, Peers: []string{"zk-lock"}, Want: 1.1,
		Short: "both make the two writes of a cycle through one library, and the server is the limit. Our own " +
			"client was an " +
			"eighth faster, and was replaced by the library's"},
	{Set: "zookeeper", Scenario: "hot-clients", Measure: bench.Rate, Peers: []string{"zk-lock"}, Want: 1.5},
	{Set: "zookeeper", Scenario: "hot-local", Measure: bench.Rate, Peers: []string{"zk-lock"}, Want: 10},
	{Set: "zookeeper", Scenario: "hot-single", Measure: bench.Rate, Peers: []string{"zk-lock"}, Want: 1.2,
		Short: "a waiter with no other node ahead does not list the queue, but this saves too little"},
	{Set: "zookeeper", Scenario: "hot-single", Measure: bench.P99, Peers: []string{"zk-lock"}, Want: 1, Most: true},
	{Set: "postgres", Scenario: "serial", Measure: bench.Rate, Peers: []string{"advisory"}, Want: 0.9},
	{Set: "postgres", Scenario: "distinct", Measure: bench.Rate, Peers: []string{"advisory"}, Want: 0.8,
		Short: "both send two requests per cycle, and the server is the limit. The server parses our requests each " +
			"time, because a prepared " +
			"message can be granted and then lost (docs/decisions/0013); they also carry a TTL, a label and a " +
			"token. Tokens that " +
			"share a transaction id gained a quarter, and a release by function call a little; a goroutine for each " +
			"connection was slower"},
	{Set: "postgres", Scenario: "hot-local", Measure: bench.Rate, Peers: []string{"advisory", "pglock"}, Want: 10},
	{Set: "table", Scenario: "serial", Measure: bench.Rate, Peers: []string{"upsert"}, Want: 0.9},
	{Set: "table", Scenario: "distinct-8", Measure: bench.Rate, Peers: []string{"upsert"}, Want: 0.9,
		Short: "both send two statements per cycle, one round trip each. Ours cost the server 30 µs, and the peer's 20: " +
			"they also count a token, and look for a holder first, so that a refusal writes nothing. Our process spends 80 " +
			"µs, and 43 with the peer's statements on the same driver: a grant returns a row, and each request has a time " +
			"limit and ends with Close. An UPDATE that inserts only new keys saved the server 5 µs"},
	{Set: "table", Scenario: "distinct", Measure: bench.Rate, Peers: []string{"upsert"}, Want: 0.9,
		Short: "as with 8 workers"},
	{Set: "table-held", Scenario: "held", Measure: bench.CPU, Want: 0.5, Most: true},
	{Set: "embedded", Scenario: "serial", Measure: bench.Rate, Store: "memory", Want: 1_000_000,
		Short: "the rate depends on the machine: the same code reached 1.13 million per second on a less busy host"},
	{Set: "embedded", Scenario: "serial", Measure: bench.Rate, Store: "file", Want: 20_000},
}, readersTargets()...)

var redisLibraries = []string{"redsync", "redislock", "rueidislock"}

// A Score is the result of a Target.
type Score struct {
	Target
	Peer     string // the best peer
	Figure   bench.Figure
	Measured bool
}

// Met reports whether the median meets the target.
func (s Score) Met() bool {
	return s.Measured && (s.Figure.Median >= s.Want) != s.Most || s.Measured && s.Figure.Median == s.Want
}

// Score compares the stores round by round.
func (g Target) Score(b *bench.Report) Score {
	s := Score{Target: g}
	if s.Store == "" {
		s.Store = ours
	}
	mine := b.Result(g.Scenario, s.Store)
	if mine == nil || len(mine.Rounds) == 0 {
		return s
	}
	s.Peer = g.best(b)
	if len(g.Peers) > 0 && s.Peer == "" {
		return s
	}
	theirs := b.Result(g.Scenario, s.Peer)
	if g.Beside != "" {
		s.Peer = g.Beside
		theirs = b.Result(g.Beside, s.Store)
	}
	if s.Peer != "" && theirs == nil {
		return s
	}
	var values []float64
	for i, round := range mine.Rounds {
		v, ok := round[g.Measure.Name]
		v -= g.Minus
		if s.Peer != "" {
			if i >= len(theirs.Rounds) || theirs.Rounds[i][g.Measure.Name] == 0 {
				continue
			}
			v /= theirs.Rounds[i][g.Measure.Name]
		}
		if ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return s
	}
	s.Measured = true
	slices.Sort(values)
	s.Figure = bench.Figure{Low: values[0], Median: values[len(values)/2], High: values[len(values)-1]}
	return s
}

// best names the peer with the best median.
func (g Target) best(b *bench.Report) (name string) {
	var best float64
	for _, p := range g.Peers {
		f, ok := b.Figure(g.Scenario, p, g.Measure)
		if ok && f.Median > 0 && (name == "" || (f.Median > best) == g.Measure.More) {
			name, best = p, f.Median
		}
	}
	return name
}

// String returns the target in words.
func (g Target) String() string {
	sign := "≥"
	if g.Most {
		sign = "≤"
	}
	if len(g.Peers) == 0 && g.Beside == "" {
		return fmt.Sprintf("%s %s%s", sign, bench.ShowNumber(g.Want), unitOf(g.Measure))
	}
	what := fmt.Sprintf("%s %s times", sign, bench.ShowNumber(g.Want))
	if g.Minus > 0 {
		what += fmt.Sprintf(", less %v", time.Duration(g.Minus*float64(time.Second)))
	}
	return what
}

func unitOf(m bench.Measure) string {
	switch m.Unit {
	case "/s":
		return "/s"
	case "":
		return ""
	}
	return " " + m.Unit
}
