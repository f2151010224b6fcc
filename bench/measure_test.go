package bench

import (
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	t.Parallel()
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		times []time.Duration
		q     float64
		want  time.Duration
	}{
		{[]time.Duration{7}, 0.5, 7}, {[]time.Duration{7}, 0.99, 7}, {[]time.Duration{1, 2}, 0.5, 1},
		{[]time.Duration{1, 2}, 0.99, 2},
		{hundred, 0.5, 50}, {hundred, 0.99, 99}, {hundred, 1, 100},
	} {
		if got := quantile(c.times, c.q); got != c.want {
			t.Errorf("quantile %v of %d times is %d, want %d", c.q, len(c.times), got, c.want)
		}
	}
}

func TestJain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shares []int
		want   float64
	}{
		{[]int{5, 5, 5, 5}, 1}, {[]int{8, 0, 0, 0}, 0.25}, {[]int{1, 2, 3}, 36.0 / 42}, {[]int{0, 0}, 0},
	} {
		if got := jain(c.shares); got != c.want {
			t.Errorf("fairness of %v is %v, want %v", c.shares, got, c.want)
		}
	}
}

func TestFigure(t *testing.T) {
	t.Parallel()
	if f := newFigure([]float64{3, 1, 2}); f != (Figure{Median: 2, Low: 1, High: 3}) {
		t.Errorf("%+v", f)
	}
	if f := newFigure([]float64{4, 1, 2, 3}); f != (Figure{Median: 2.5, Low: 1, High: 4}) {
		t.Errorf("%+v", f)
	}
}

// A slow short round has no P99 of its own, and must not be missing from the P99 of the result.
func TestQuantilesOfAllRounds(t *testing.T) {
	t.Parallel()
	round := func(n int, each time.Duration) *trial {
		t := &trial{sample: make(Sample)}
		times := make([]time.Duration, n)
		for i := range times {
			times[i] = each
		}
		t.waited(times)
		return t
	}
	fast, slow := time.Millisecond, time.Second
	for _, c := range []struct {
		name          string
		rounds        []*trial
		p50, p99, max time.Duration // p99 is 0 for none
	}{
		{"short rounds are slow", []*trial{round(200, fast), round(90, slow), round(90, slow), round(90, slow)}, slow, slow,
			slow},
		{"one slow round", []*trial{round(1000, fast), round(1000, fast), round(150, slow)}, fast, slow, slow},
		{"enough together", []*trial{round(60, fast), round(60, fast)}, fast, fast, fast},
		{"too few together", []*trial{round(40, fast), round(40, slow)}, fast, 0, slow},
	} {
		b := newReport(Options{}, selected([]string{"serial"}, Options{}))
		b.Stores = []StoreInfo{{Name: "a"}}
		for _, r := range c.rounds {
			b.result("serial", "a").add(r.sample, r.waits)
		}
		b.finish()
		for m, want := range map[Measure]time.Duration{P50: c.p50, P99: c.p99, Max: c.max} {
			f, ok := b.Figure("serial", "a", m)
			if ok != (want > 0) || f.Median != want.Seconds() {
				t.Errorf("%s: %s is %v (measured: %v), want %v", c.name, m.Name, f.Median, ok, want)
			}
			if f.Low > f.Median || f.Median > f.High {
				t.Errorf("%s: %s is %+v", c.name, m.Name, f)
			}
		}
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		m    Measure
		v    float64
		want string
	}{
		{Rate, 1234567.8, "1 234 568/s"}, {Rate, 12.34, "12.3/s"}, {P50, 0.0000001234, "123 ns"}, {P50, 0.0001234, "123 µs"},
		{P50, 1.5, "1.50 s"}, {P99, 0.0123, "12.3 ms"}, {CPU, 0.0384, "0.038 %"}, {Jain, 1, "1"}, {Jain, 0.98765, "0.988"},
		{Allocs, 0, "0"},
	} {
		if got := c.m.Show(c.v, true); got != c.want {
			t.Errorf("%s %v is shown as %q, want %q", c.m.Name, c.v, got, c.want)
		}
	}
	if got := Rate.Show(0, false); got != "-" {
		t.Errorf("nothing measured is shown as %q", got)
	}
	if got := (Figure{100, 90, 125}).spread(true); got != "-10 +25 %" {
		t.Errorf("spread %q", got)
	}
}
