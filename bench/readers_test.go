package bench_test

import (
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/bench"
	_ "github.com/anylock/lock/memory"
)

// The writer of readers-writer gets its turns, although there are always readers.
func TestReaders(t *testing.T) {
	t.Parallel()
	s, err := bench.URL(t.Context(), "memory://bench-readers")
	if err != nil {
		t.Fatal(err)
	}
	o := quick(s)
	o.Scenarios, o.Duration = []string{"readers", "readers-writer", "readers-writers", "mixed"}, 200*time.Millisecond
	b := measured(t, o)
	for _, name := range o.Scenarios {
		r := b.Result(name, s.Name)
		if r == nil || r.Problem != "" || r.Skipped != "" || r.Figures["rate"].Median <= 0 || r.Figures["max"].Median <= 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// Of 64 workers the 8 writers alone count. A busy machine gives them too few turns.
	r := b.Result("readers-writers", s.Name)
	if f, ok := r.Figures["fairness"]; ok && f.Median < 0.5 || !ok && !strings.Contains(r.Note, "too short") {
		t.Errorf("readers-writers: %+v", r)
	}
}
