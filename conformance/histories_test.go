package conformance_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anylock/lock/conformance"
)

// TestFailedHistoryIsShown expects a picture in the requested directory, and the requested seed.
func TestFailedHistoryIsShown(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("ANYLOCK_CONFORMANCE_DIR", dir)
	t.Setenv("ANYLOCK_CONFORMANCE_SEED", "42")
	s := newServer("token goes back once in a while")
	defer close(s.stop)
	results, err := conformance.Execute(t.Context(), s.harness(), conformance.Options{Run: only("HistoryUnderContention")})
	if err != nil || len(results) != 1 || results[0].Status != conformance.Fail {
		t.Fatalf("error %v, results %+v, want one failure", err, results)
	}
	output := results[0].Output
	pictures, _ := filepath.Glob(filepath.Join(dir, "*.html"))
	if len(pictures) != 1 || !strings.Contains(output, pictures[0]) {
		t.Fatalf("pictures %q, output:\n%s", pictures, output)
	}
	if page, err := os.ReadFile(pictures[0]); err != nil || !strings.Contains(string(page), "<html") {
		t.Errorf("the picture is no page (error %v)", err)
	}
	for _, part := range []string{"seed: ANYLOCK_CONFORMANCE_SEED=42", "nothing explains: ", "granted to "} {
		if !strings.Contains(output, part) {
			t.Errorf("the output lacks %q:\n%s", part, output)
		}
	}
}
