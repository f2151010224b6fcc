package conformance_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/anylock/lock/conformance"
)

func TestMain(m *testing.M) {
	// Failing checks write pictures of histories to TMPDIR.
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		panic(err)
	}
	os.Setenv("TMPDIR", dir)
	debug.SetGCPercent(400) // the heap is small, and collections cost a quarter of the tests' processor time
	goleak.VerifyTestMain(whole{m}, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// A whole runs all tests, and then waits until the clients of killed processes are closed.
type whole struct{ *testing.M }

func (w whole) Run() int {
	defer dying.Wait()
	return w.M.Run()
}

// TestReference runs the suite on a store that keeps every rule and has every hook. With -short the store has no
// members, because each member would fail three times, one after the other.
func TestReference(t *testing.T) {
	t.Parallel()
	conformance.RunInBubble(t, func(*testing.T) conformance.Harness {
		h := newServer("").harness()
		h.Many = 256 // the default, but also in large batches: the mutants that run at the same time need the machine
		if testing.Short() {
			h.Members = nil
		}
		return h
	})
}

// only selects one check.
func only(check string) *regexp.Regexp {
	return regexp.MustCompile("^" + regexp.QuoteMeta(check) + "$")
}

// passes runs the check that o selects, which must pass.
func passes(t *testing.T, h conformance.Harness, o conformance.Options) {
	t.Helper()
	results, err := conformance.Execute(t.Context(), h, o)
	if err != nil {
		t.Fatal(err)
	}
	if r := results[0]; r.Status != conformance.Pass {
		t.Errorf("%s: %s", r.Status, r.Output)
	}
}

// TestMutants proves the suite: each check finds its bugs, and each check has a bug. Some checks find a bug by chance
// and have five attempts: random histories and queues, kills, rivals and releases at random moments, and a cleanup that
// overlaps a restart.
// All others must find the bug at the first attempt. The mutants run in bubbles. With the race detector, each check has
// one bug.
func TestMutants(t *testing.T) {
	t.Parallel()
	var (
		all   sync.WaitGroup
		slots = make(chan struct{}, runtime.GOMAXPROCS(0))
	)
	tried := make(map[string]bool) // checks
	for _, m := range mutants {
		if raceDetector && tried[m.check] {
			continue
		}
		tried[m.check] = true
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			m.mustBeFound(t)
		})
	}
	all.Wait()
	for _, c := range conformance.Checks() {
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.check == c.Name }) {
			t.Errorf("no mutant proves that %s can fail", c.Name)
		}
	}
}

func (m mutant) mustBeFound(t *testing.T) {
	attempts := 1
	byChance := regexp.MustCompile("^((Shared)?History.*|KilledInside.*|CutInsideRefusal|RestartServesAllWaiters|" +
		"CancelledReaderLeavesNothing|SharedNoLostWakeUp|SharedUnderContention|MixedQueueFollowsModel|PushIsPrompt|" +
		"LostAtDeadline)$")
	if byChance.MatchString(m.check) {
		attempts = 5
	}
	begun := time.Now()
	var found bool
	var output string
	for range attempts {
		if found, output = m.foundInBubble(t); found {
			break
		}
	}
	if !found {
		t.Errorf("%s survives %s: %s", m.bug, m.check, output)
	}
	if testing.Verbose() {
		t.Logf("%s: %s: %v", m.check, m.bug, time.Since(begun).Round(time.Millisecond))
	}
}

// foundInBubble is found in fake time.
func (m mutant) foundInBubble(t *testing.T) (found bool, output string) {
	if err := conformance.InBubble(t, func(t *testing.T) { found, output = m.found(t) }); err != nil {
		return false, err.Error() + "\n" + output
	}
	return found, output
}

// found reports whether the mutant's check fails, and names the rule that the bug breaks.
func (m mutant) found(t *testing.T) (found bool, output string) {
	s := newServer(m.bug)
	defer close(s.stop)
	results, err := conformance.Execute(t.Context(), s.harness(),
		conformance.Options{Run: only(m.check), Timeout: 20 * time.Second, Short: true})
	switch {
	case err != nil:
		return false, err.Error()
	case len(results) != 1:
		return false, "there is no such check"
	case results[0].Status != conformance.Fail:
		return false, string(results[0].Status) + "\n" + results[0].Output
	case m.misnamed(results[0]) != "":
		return false, m.misnamed(results[0]) + ":\n" + results[0].Broken + "\n" + results[0].Output
	}
	return true, ""
}

// TestMutantsRecord checks that testdata/mutants.json equals the table of mutants. docs/evidence/kill-table.md is made
// from that file. Set ANYLOCK_UPDATE=1 to write it ("make evidence").
func TestMutantsRecord(t *testing.T) {
	type line struct {
		Bug   string `json:"bug"`
		Check string `json:"check"`
	}
	lines := make([]line, len(mutants))
	for i, m := range mutants {
		lines[i] = line{m.bug, m.check}
	}
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	e.SetIndent("", "\t")
	if err := e.Encode(lines); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "mutants.json")
	if os.Getenv("ANYLOCK_UPDATE") == "1" {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(file, want.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(file); err != nil || !bytes.Equal(have, want.Bytes()) {
		t.Errorf("%s is out of date (error %v): run make evidence", file, err)
	}
}
