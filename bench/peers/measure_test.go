//go:build measure

package peers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/anylock/lock/bench"
)

// TestMeasure measures every set and writes docs/benchmarks.md, of all sets or of the one that ANYLOCK_BENCH_PEERS
// names. It takes a quarter of an hour: make bench-peers.
func TestMeasure(t *testing.T) {
	only := os.Getenv("ANYLOCK_BENCH_PEERS")
	for _, s := range Sets {
		if only != "" && only != "all" && only != s.Name {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			o := s.Options
			o.Observe = func(p bench.Progress) { t.Logf("%d of %d: %s on %s", p.Done, p.Total, p.Scenario, p.Store) }
			b, err := s.Run(t.Context(), t, o)
			if err != nil {
				t.Fatal(err)
			}
			failOnProblems(t, b, "")
			if err := os.MkdirAll(filepath.Join(docs, "benchmarks"), 0o755); err != nil {
				t.Fatal(err)
			}
			f, err := os.Create(reportFile(s.Name))
			if err != nil {
				t.Fatal(err)
			}
			if err := b.WriteJSON(f); err != nil {
				t.Error(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			_ = b.WriteText(os.Stdout)
		})
	}
	if err := WritePage(docs, reports(t)); err != nil {
		t.Fatal(err)
	}
}
