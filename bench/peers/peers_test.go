package peers

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/anylock/lock/bench"
	_ "github.com/anylock/lock/etcd"
	_ "github.com/anylock/lock/file"
	_ "github.com/anylock/lock/memory"
	_ "github.com/anylock/lock/postgres"
	_ "github.com/anylock/lock/redis"
	_ "github.com/anylock/lock/redis/redlock"
	_ "github.com/anylock/lock/sqltable/pgtable"
	_ "github.com/anylock/lock/zookeeper"
)

func TestMain(m *testing.M) {
	bench.Main(Open)
	os.Exit(m.Run())
}

const docs = "../../docs"

func reportFile(set string) string { return filepath.Join(docs, "benchmarks", set+".json") }

// reports reads what was measured last.
func reports(t *testing.T) map[string]*bench.Report {
	t.Helper()
	all := make(map[string]*bench.Report)
	for _, s := range Sets {
		f, err := os.Open(reportFile(s.Name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := bench.ReadJSON(f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		all[s.Name] = b
	}
	return all
}

// failOnProblems fails if something could not be measured, unless it was on the store with the known problem.
func failOnProblems(t *testing.T, b *bench.Report, known string) {
	t.Helper()
	for _, r := range b.Results {
		switch {
		case r.Problem == "":
		case r.Store == known:
			t.Logf("%s on %s: %s", r.Scenario, r.Store, r.Problem)
		default:
			t.Errorf("%s on %s: %s", r.Scenario, r.Store, r.Problem)
		}
	}
}

// The page is what the reports beside it say.
func TestPageIsGenerated(t *testing.T) {
	have, err := os.ReadFile(filepath.Join(docs, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := WritePage(dir, reports(t)); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(dir, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != string(want) {
		t.Error("docs/benchmarks.md is not what docs/benchmarks/*.json say: run ANYLOCK_BENCH_PEERS=page go test -tags " +
			"measure -run TestMeasure")
	}
}

// Every set runs, once and shortly, so that none can rot.
func TestOnce(t *testing.T) {
	rueidisPatience = 5 * time.Second
	t.Cleanup(func() { rueidisPatience = 0 }) // when the sets are through
	for _, s := range Sets {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel() // they wait more than they compute
			o := s.Options
			o.Rounds, o.Duration = 2, 100*time.Millisecond // a busy machine may stand still for one of them
			if o.Held > 0 {
				o.Held, o.TTL = 20, 4*time.Second // which must not end in that time
			}
			b, err := s.Run(t.Context(), t, o)
			if err != nil {
				t.Fatal(err)
			}
			failOnProblems(t, b, "rueidislock") // waits for ever, now and then: see rueidisPatience
			for _, g := range Targets {
				// A slow peer may get nothing done in that time; ours does.
				g.Peers = nil
				if g.Measure == bench.Jain || g.Measure == bench.P99 {
					continue // rounds as short as these tell neither
				}
				if g.Set == s.Name && !g.Score(b).Measured {
					t.Errorf("%s of %s cannot be measured: %+v", g.Measure.Name, g.Scenario, b.Result(g.Scenario, ours))
				}
			}
			if _, err := json.Marshal(b); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestScore(t *testing.T) {
	report := func(mine, theirs []float64) *bench.Report {
		b := new(bench.Report)
		for name, values := range map[string][]float64{ours: mine, "redsync": theirs} {
			if values == nil {
				continue
			}
			r := &bench.Result{Scenario: "serial", Store: name,
				Figures: map[string]bench.Figure{"rate": {Median: values[0]}, "p99": {Median: values[0]}}}
			for _, v := range values {
				r.Rounds = append(r.Rounds, bench.Sample{"rate": v, "p99": v})
			}
			b.Results = append(b.Results, r)
		}
		return b
	}
	for _, c := range []struct {
		target       Target
		mine, theirs []float64
		median       float64
		met          bool
	}{
		{Target{Measure: bench.Rate, Peers: []string{"redsync"}, Want: 2}, []float64{20, 30, 50}, []float64{10, 10, 10}, 3,
			true},
		{Target{Measure: bench.Rate, Peers: []string{"redsync"}, Want: 4}, []float64{20, 30, 50}, []float64{10, 10, 10}, 3,
			false},
		{Target{Measure: bench.P99, Peers: []string{"redsync"}, Want: 0.2, Most: true}, []float64{1, 1, 1},
			[]float64{10, 10, 4}, 0.1, true},
		{Target{Measure: bench.P99, Peers: []string{"redsync"}, Want: 0.2, Most: true}, []float64{3, 3, 3},
			[]float64{10, 10, 10}, 0.3, false},
		{Target{Measure: bench.Rate, Want: 20}, []float64{20}, []float64{1}, 20, true},
	} {
		c.target.Scenario = "serial"
		s := c.target.Score(report(c.mine, c.theirs))
		if !s.Measured || s.Figure.Median != c.median || s.Met() != c.met {
			t.Errorf("%v: %+v, met %v", c.target, s.Figure, s.Met())
		}
	}
	// Another scenario of the same store instead of a peer, and a constant part.
	b := report([]float64{4, 5, 9}, nil)
	b.Results = append(b.Results, &bench.Result{Scenario: "hand-off", Store: ours,
		Rounds: []bench.Sample{{"p99": 1}, {"p99": 2}, {"p99": 2}}})
	beside := Target{Scenario: "serial", Measure: bench.P99, Beside: "hand-off", Minus: 1, Want: 3, Most: true}
	if s := beside.Score(b); !s.Measured || s.Figure != (bench.Figure{Low: 2, Median: 3, High: 4}) ||
		s.Peer != "hand-off" || !s.Met() {
		t.Errorf("%+v", s)
	}
	beside.Beside = "try"
	if s := beside.Score(b); s.Measured {
		t.Errorf("%+v", s)
	}
	if s := (Target{Scenario: "try", Measure: bench.Rate, Want: 1}).Score(new(bench.Report)); s.Measured || s.Met() {
		t.Error("what was not measured is met")
	}
}
