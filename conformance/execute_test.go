package conformance_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

func TestExecuteReportsEverySelectedCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var observed []string
		results, err := conformance.Execute(t.Context(), newServer("").harness(), conformance.Options{
			Run:     regexp.MustCompile("^(Inspect|NoTokens)"),
			Observe: func(r conformance.Result) { observed = append(observed, r.Name) },
		})
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, c := range conformance.Checks() {
			if strings.HasPrefix(c.Name, "Inspect") || c.Name == "NoTokensPromised" {
				want = append(want, c.Name)
			}
		}
		for _, r := range results {
			got = append(got, r.Name)
			status := conformance.Pass
			if r.Name == "NoTokensPromised" {
				status = conformance.Skip
			}
			if r.Status != status || r.Rule == "" {
				t.Errorf("%+v, want status %s and a rule", r, status)
			}
			if r.Status == conformance.Skip && !strings.Contains(r.Output, "Fencing") {
				t.Errorf("%s is skipped without a reason: %q", r.Name, r.Output)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("results of %v, want %v", got, want)
		}
		slices.Sort(want)
		slices.Sort(observed)
		if !slices.Equal(observed, want) {
			t.Errorf("observed %v, want %v", observed, want)
		}
	})
}

// Checks that step the clock run after checks that empty the store. Tokens from a clock that is ahead are higher than
// the tokens that a store grants after a loss of its data.
func TestClockIsSteppedLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for range 2 {
			s := newServer("")
			h := s.harness()
			var order []string
			note := func(what string) {
				if len(order) == 0 || order[len(order)-1] != what {
					order = append(order, what)
				}
			}
			h.StepClock = func(time.Duration) { note("stepped") }
			h.RestartEmpty = func() { note("emptied") }
			o := conformance.Options{Run: regexp.MustCompile("SteppedClockEndsNoLease|EmptiedStoreServes")}
			if _, err := conformance.Execute(t.Context(), h, o); err != nil ||
				!slices.Equal(order, []string{"emptied", "stepped"}) {
				t.Errorf("%v; the store was %v", err, order)
			}
		}
	})
}

func TestExecuteNeedsAStore(t *testing.T) {
	if _, err := conformance.Execute(t.Context(), conformance.Harness{}, conformance.Options{}); !errors.Is(err,
		backend.ErrInvalid) {
		t.Errorf("harness without Open: %v, want ErrInvalid", err)
	}
	broken := errors.New("connection refused")
	open := func(context.Context) (backend.Backend, error) { return nil, broken }
	if _, err := conformance.Execute(t.Context(), conformance.Harness{Open: open}, conformance.Options{}); !errors.Is(err,
		broken) {
		t.Errorf("store that cannot be opened: %v, want %v", err, broken)
	}
}

// TestOutageEndsEveryLease proves that Outage must be less than MaxSilence. Otherwise no lease outlives an outage, and
// the checks would prove nothing.
func TestOutageEndsEveryLease(t *testing.T) {
	t.Parallel()
	s := newServer("deadline is further away than MaxSilence")
	defer close(s.stop)
	h := s.harness()
	for _, test := range []struct {
		outage time.Duration
		want   error
	}{{1999 * time.Millisecond, nil}, {2 * time.Second, backend.ErrInvalid}} {
		h.Outage = test.outage
		none := conformance.Options{Run: regexp.MustCompile("^$")}
		if _, err := conformance.Execute(t.Context(), h, none); !errors.Is(err, test.want) {
			t.Errorf("outage of %v, MaxSilence 2s: %v, want %v", test.outage, err, test.want)
		}
	}
}

// TestExecuteEndsHungChecks runs a check that hangs even after its context has ended. The check fails at its time
// limit, and reports its goroutines.
func TestExecuteEndsHungChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("wait ignores the context")
		defer close(s.stop)
		begun := time.Now()
		results, err := conformance.Execute(t.Context(), s.harness(),
			conformance.Options{Run: only("CancelledWhileWaiting"), Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		r := results[0]
		if r.Status != conformance.Fail || !strings.Contains(r.Output, "not done after 1s") ||
			!strings.Contains(r.Output, "cancelledWhileWaiting") {
			t.Errorf("%s: %s, want the goroutines of the check", r.Status, r.Output)
		}
		if took := time.Since(begun); took > 30*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// If a restart takes as long as the lease, it proves nothing about the data that the store keeps. The check is
// repeated.
func TestSlowRestartProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("")
		defer close(s.stop)
		h := s.harness()
		restarts := 0
		h.Restart = func() {
			s.restart()
			if restarts++; restarts == 1 {
				time.Sleep(5 * time.Minute)
			}
		}
		results, err := conformance.Execute(t.Context(), h,
			conformance.Options{Run: only("RestartKeepsLeases"), Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if r := results[0]; r.Status != conformance.Pass || restarts == 1 {
			t.Errorf("%s after %d restarts: %s", r.Status, restarts, r.Output)
		}
	})
}

// If no lease can outlive a restart because of MaxSilence, RestartKeepsLeases is skipped.
func TestRestartSlowerThanSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("deadline stands at MaxSilence")
		defer close(s.stop)
		results, err := conformance.Execute(t.Context(), s.harness(),
			conformance.Options{Run: only("RestartKeepsLeases"), Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if r := results[0]; r.Status != conformance.Skip || !strings.Contains(r.Output, "MaxSilence") {
			t.Errorf("%s: %s", r.Status, r.Output)
		}
	})
}

// If an eviction comes after the lease's end, it may hit the next lease. The check is repeated.
func TestSlowEvictionProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("")
		defer close(s.stop)
		h := s.harness()
		evict := h.Evict
		var begun, over, repeated atomic.Bool // of the slow eviction; another one came after it
		h.Evict = func(ctx context.Context, key string) error {
			if begun.CompareAndSwap(false, true) {
				time.Sleep(10 * time.Second)
				defer over.Store(true)
			} else if over.Load() {
				repeated.Store(true)
			}
			return evict(ctx, key)
		}
		results, err := conformance.Execute(t.Context(), h,
			conformance.Options{Run: only("EvictedKeyWakesWaiter"), Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if r := results[0]; r.Status != conformance.Pass || !repeated.Load() {
			t.Errorf("%s, repeated: %v: %s", r.Status, repeated.Load(), r.Output)
		}
	})
}

func TestExecuteIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := newServer("")
	defer close(s.stop)
	first := true
	results, err := conformance.Execute(ctx, s.harness(), conformance.Options{
		Parallel: 2,
		Observe: func(conformance.Result) {
			if first {
				first = false
				cancel()
			}
		},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if len(results) != len(conformance.Checks()) {
		t.Errorf("%d results of %d checks", len(results), len(conformance.Checks()))
	}
	for _, r := range results {
		if r.Status == conformance.Fail {
			t.Errorf("%s fails because the suite was interrupted: %s", r.Name, r.Output)
		}
	}
}

func TestChecksAreNamed(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range conformance.Checks() {
		switch {
		case !regexp.MustCompile(`^[A-Z][A-Za-z]+$`).MatchString(c.Name) || seen[c.Name]:
			t.Errorf("bad or double name %q", c.Name)
		case c.Rule == "" || strings.HasSuffix(c.Rule, "."):
			t.Errorf("%s: bad rule %q", c.Name, c.Rule)
		}
		for _, n := range c.Needs {
			if n.Reason == "" || n.Met == nil {
				t.Errorf("%s: incomplete need %+v", c.Name, n)
			}
		}
		seen[c.Name] = true
	}
}
