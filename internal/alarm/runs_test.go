package alarm_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anylock/lock/internal/alarm"
)

// Entries that are repeatedly moved to now plus one of a few TTLs form at most one run for each TTL, and come out in
// order of time.
func TestDeadlinesOfEqualTTLsMakeFewRuns(t *testing.T) {
	const leases, steps = 1000, 20_000
	ttls := []time.Duration{time.Minute, 10 * time.Second, time.Hour}
	clock := alarm.New[int](func() {})
	entries := make([]alarm.Entry[int], leases)
	now := time.Now()
	begun := now
	order := rand.Perm(leases)
	for i := range steps {
		now = now.Add(time.Microsecond)
		e := &entries[order[i%leases]]
		clock.Set(e, now.Add(ttls[rand.N(len(ttls))]))
		if n := clock.Runs(); n > len(ttls) {
			t.Fatalf("%d runs after %d steps, want at most %d", n, i+1, len(ttls))
		}
	}
	if n := clock.Len(); n != leases {
		t.Fatalf("%d entries, want %d", n, leases)
	}
	for last := begun; clock.First() != nil; {
		e := clock.First()
		if e.At().Before(last) {
			t.Fatalf("an entry of %v after one of %v", e.At().Sub(begun), last.Sub(begun))
		}
		last = e.At()
		clock.Remove(e)
	}
	if n, runs := clock.Len(), clock.Runs(); n != 0 || runs != 0 {
		t.Errorf("%d entries, %d runs are left", n, runs)
	}
}

// First returns the earliest entry, whichever entries are added and removed, in any order and at equal times.
func TestFirstIsFirst(t *testing.T) {
	clock := alarm.New[int](func() {})
	entries := make([]alarm.Entry[int], 50)
	now := time.Now()
	in := make(map[*alarm.Entry[int]]time.Time)
	for step := range 50_000 {
		e := &entries[rand.N(len(entries))]
		if rand.N(3) == 0 {
			clock.Remove(e)
			delete(in, e)
		} else {
			at := now.Add(time.Duration(step%1000) + time.Duration(rand.N(30))) // mostly ascending, so that runs form
			clock.Set(e, at)
			in[e] = at
		}
		var first time.Time
		for _, at := range in {
			if first.IsZero() || at.Before(first) {
				first = at
			}
		}
		got := clock.First()
		switch {
		case clock.Len() != len(in):
			t.Fatalf("%d entries, want %d", clock.Len(), len(in))
		case got == nil && len(in) > 0, got != nil && !got.At().Equal(first):
			t.Fatalf("step %d: the first is %v, want one at %v", step, got, first)
		}
	}
}
