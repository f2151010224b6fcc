package bench

import (
	"slices"
	"time"
)

// A Measure is a quantity that is measured.
type Measure struct {
	Name  string `json:"name"`
	Unit  string `json:"unit"` // "/s", "s", "" for a plain number, "%"
	About string `json:"about"`
	More  bool   `json:"more_is_better"`
}

// The measures, in the order of tables.
var (
	Rate = Measure{"rate", "/s", "cycles of acquire and release per second", true}
	// P50, P99 and Max of a result cover the acquisitions of all rounds together.
	P50  = Measure{"p50", "s", "half of the acquisitions waited no longer than this", false}
	P99  = Measure{"p99", "s", "99 of 100 acquisitions waited no longer than this", false}
	Max  = Measure{"max", "s", "the longest wait of an acquisition", false}
	Jain = Measure{"fairness", "", "1 if all workers got the key equally often, 1/n if one of n got it every time " +
		"(Jain's index)", true}
	Requests = Measure{"server-commands", "",
		"commands that the server executed per cycle, including those in scripts; not round trips", false}
	Allocs     = Measure{"allocs", "", "heap allocations of the client per cycle", false}
	Work       = Measure{"work", "s", "processor time that the client's process used per cycle", false}
	CPU        = Measure{"cpu", "%", "share of one core that the client's process used", false}
	Load       = Measure{"load", "/s", "commands that the server executed per second, counted like server-commands", false}
	Goroutines = Measure{"goroutines", "", "additional goroutines while the leases were held", false}
)

// Measures lists every measure, in the order of tables.
var Measures = []Measure{Rate, P50, P99, Max, Jain, Requests, Allocs, Work, CPU, Load, Goroutines}

// A Sample contains the measurements of one round, by the names of measures.
type Sample map[string]float64

func (s Sample) set(m Measure, v float64) { s[m.Name] = v }

// A Figure summarizes a measure over all rounds.
type Figure struct {
	Median float64 `json:"median"` // for P50, P99 and Max, the value for all rounds together
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// newFigure summarizes the values of the rounds.
func newFigure(values []float64) Figure {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	f := Figure{Low: v[0], High: v[n-1], Median: v[n/2]}
	if n%2 == 0 {
		f.Median = (v[n/2-1] + v[n/2]) / 2
	}
	return f
}

// jain returns Jain's fairness index of shares (R. Jain, D. Chiu, W. Hawe, 1984).
func jain(shares []int) float64 {
	var sum, squares float64
	for _, n := range shares {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// leastForP99 is how many acquisitions P99 needs. leastTurns is how many turns per worker Jain needs.
const (
	leastForP99 = 100
	leastTurns  = 10
)

// waited sorts and keeps the waiting times of the round, and adds their quantiles to the sample.
func (t *trial) waited(times []time.Duration) {
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	t.waits = times
	t.sample.set(P50, quantile(times, 0.5).Seconds())
	if len(times) >= leastForP99 {
		t.sample.set(P99, quantile(times, 0.99).Seconds())
	}
	t.sample.set(Max, times[len(times)-1].Seconds())
}

// setQuantiles replaces the figures of waiting times by quantiles over all rounds. A median of the rounds' quantiles
// could put P99 below P50 or above Max, because rounds differ in length. Low and High are quantiles of single rounds,
// even of rounds that are too short for their own P99.
func setQuantiles(figures map[string]Figure, rounds [][]time.Duration) {
	all := slices.Concat(rounds...)
	delete(figures, P99.Name)
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	for m, q := range map[Measure]float64{P50: 0.5, P99: 0.99, Max: 1} {
		if m == P99 && len(all) < leastForP99 {
			continue
		}
		var each []float64
		for _, times := range rounds {
			each = append(each, quantile(times, q).Seconds())
		}
		f := newFigure(each)
		f.Median = quantile(all, q).Seconds()
		figures[m.Name] = f
	}
}

// quantile returns the smallest of the sorted times that at least the share q of the times do not exceed.
func quantile(times []time.Duration, q float64) time.Duration {
	i := int(q*float64(len(times))+0.9999999) - 1
	return times[min(max(i, 0), len(times)-1)]
}
