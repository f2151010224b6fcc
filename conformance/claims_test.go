package conformance_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// Unproven reports a claim if the hook that tests it is missing, or if Harness.Skip excludes its check. With every
// hook, it reports no claim.
func TestClaimsAreNotProvenWithoutTheirHook(t *testing.T) {
	t.Parallel()
	for _, lie := range []struct{ bug, field, missing, check string }{
		{"tokens restart with an emptied store", "Guarantees.Fencing", "Harness.RestartEmpty", "TokensSurviveEmptying"},
		{"restart drops leases", "Guarantees.EarlyLoss", "Harness.Restart", "RestartKeepsLeases"},
		{"other processes have a store of their own", "Guarantees.Reach", "Harness.Process", "ProcessesExclude"},
		{"step of the clock forward ends leases, and nobody says so", "Guarantees.EnforcedBy", "Harness.StepClock",
			"SteppedClockEndsNoLease"},
		{"lease ends by its holder's clock", "Guarantees.EnforcedBy", "Harness.Process", "WrongClockEndsNothingEarly"},
	} {
		t.Run(lie.bug, func(t *testing.T) {
			t.Parallel()
			s := newServer(lie.bug)
			defer close(s.stop)
			h := s.harness()
			g := newClient(s).Guarantees()
			if open := conformance.Unproven(g, h); len(open) != 0 {
				t.Errorf("with every hook %+v is not proven", open)
			}
			bare := conformance.Harness{Open: h.Open}
			reported := false
			for _, c := range conformance.Unproven(g, bare) {
				reported = reported || c.Field == lie.field && c.Missing == lie.missing &&
					strings.Contains(c.Reason, "not proven") && c.Text != ""
			}
			if !reported {
				t.Errorf("%s is taken for proven without %s", lie.field, lie.missing)
			}
			h.Skip = map[string]string{lie.check: "a reason"}
			if open := conformance.Unproven(g, h); len(open) != 1 || open[0].Field != lie.field {
				t.Errorf("%+v is not proven when %s is left out, want %s", open, lie.check, lie.field)
			}
		})
	}
}

// For every reach, Unproven reports the claims that the existing hooks cannot test, and none that they can.
func TestClaimsOfEveryReach(t *testing.T) {
	s := newServer("")
	defer close(s.stop)
	every := s.harness()
	bare := conformance.Harness{Open: every.Open}
	with := func(set func(h *conformance.Harness)) conformance.Harness {
		h := bare
		set(&h)
		return h
	}
	restart := func(h *conformance.Harness) { h.Restart = every.Restart }
	empty := func(h *conformance.Harness) { h.RestartEmpty = every.RestartEmpty }
	process := func(h *conformance.Harness) { h.Process = every.Process }
	clock := func(h *conformance.Harness) { h.StepClock = every.StepClock }
	evict := func(h *conformance.Harness) { h.Evict = every.Evict }
	modest := backend.Guarantees{EnforcedBy: "clock", EarlyLoss: "a restart", Consistency: backend.BestEffort}
	claim := func(change func(g *backend.Guarantees)) backend.Guarantees {
		g := modest
		change(&g)
		return g
	}
	const p, h, n = backend.ReachProcess, backend.ReachHost, backend.ReachNetwork
	for _, test := range []struct {
		what    string
		g       backend.Guarantees
		field   string
		missing map[backend.Reach]string // the hook that must be reported; empty if nothing is claimed
		proves  func(h *conformance.Harness)
	}{
		{"tokens over a restart", claim(func(g *backend.Guarantees) { g.Fencing = backend.FencingRestart }),
			"Guarantees.Fencing",
			map[backend.Reach]string{p: "Harness.Restart", h: "Harness.Restart", n: "Harness.Restart"}, restart},
		{"tokens over a loss of data", claim(func(g *backend.Guarantees) { g.Fencing = backend.FencingLoss }),
			"Guarantees.Fencing",
			map[backend.Reach]string{p: "Harness.RestartEmpty", h: "Harness.RestartEmpty", n: "Harness.RestartEmpty"},
			func(h *conformance.Harness) { restart(h); empty(h) }},
		{"tokens over a loss of data, and so over a restart",
			claim(func(g *backend.Guarantees) { g.Fencing = backend.FencingLoss }),
			"Guarantees.Fencing", map[backend.Reach]string{p: "Harness.Restart", h: "Harness.Restart", n: "Harness.Restart"},
			func(h *conformance.Harness) { restart(h); empty(h) }},
		{"tokens in a process", claim(func(g *backend.Guarantees) { g.Fencing = backend.FencingProcess }),
			"Guarantees.Fencing", nil, nil},
		{"linearizable", claim(func(g *backend.Guarantees) { g.Consistency, g.EarlyLoss = backend.Linearizable, "" }),
			"Guarantees.Consistency",
			map[backend.Reach]string{h: "Harness.Restart", n: "Harness.Restart"}, restart},
		{"no early loss", claim(func(g *backend.Guarantees) { g.EarlyLoss = "" }), "Guarantees.EarlyLoss",
			map[backend.Reach]string{h: "Harness.Restart", n: "Harness.Restart"}, restart},
		{"reach", modest, "Guarantees.Reach",
			map[backend.Reach]string{h: "Harness.Process", n: "Harness.Process"},
			func(h *conformance.Harness) { process(h); h.Linked = every.Linked }},
		{"shared leases", claim(func(g *backend.Guarantees) { g.Shared = true }), "Guarantees.Shared",
			map[backend.Reach]string{h: "Harness.Process", n: "Harness.Process"}, process},
		{"lateness", modest, "Guarantees.MaxLate", map[backend.Reach]string{h: "Harness.Process", n: "Harness.Process"},
			process},
		{"clocks", modest, "Guarantees.EnforcedBy",
			map[backend.Reach]string{p: "Harness.StepClock", h: "Harness.StepClock", n: "Harness.StepClock"},
			func(h *conformance.Harness) { process(h); clock(h) }},
		{"notified of losses", claim(func(g *backend.Guarantees) { g.ReportsLoss = true }), "Guarantees.ReportsLoss",
			map[backend.Reach]string{p: "Harness.Evict", h: "Harness.Evict", n: "Harness.Evict"}, evict},
	} {
		// Only the running check knows whether it can remove a lease.
		skipped := conformance.Result{Name: "RemovedHolderIsNotified", Status: conformance.Skip, Missing: "Harness.Evict"}
		for _, reach := range []backend.Reach{p, h, n} {
			g := test.g
			g.Reach = reach
			var missing []string
			for _, c := range conformance.Unproven(g, bare, skipped) {
				if c.Field == test.field {
					missing = append(missing, c.Missing)
				}
			}
			if want := test.missing[reach]; want == "" && len(missing) > 0 || want != "" && !slices.Contains(missing, want) {
				t.Errorf("%s, reach %v: not proven for want of %q, want %q", test.what, reach, missing, want)
			}
			if test.proves == nil {
				continue
			}
			for _, c := range conformance.Unproven(g, with(test.proves)) {
				if c.Field == test.field {
					t.Errorf("%s, reach %v: %+v is not proven with its hooks", test.what, reach, c)
				}
			}
		}
	}
}

// A boaster claims to notify holders of losses. It is no Breaker: a Break could prove the claim.
type boaster struct{ backend.Backend }

func (b boaster) Guarantees() backend.Guarantees {
	g := b.Backend.Guarantees()
	g.ReportsLoss = true
	return g
}

// skippedAsTheyRun returns a harness with which three checks of claims skip themselves while they run. The store is no
// Breaker and the harness has no Evict hook. No process can have a wrong clock. A lease without contact ends before its
// holder can reconnect to the store.
func skippedAsTheyRun(t *testing.T) conformance.Harness {
	s := newServer("deadline stands at MaxSilence")
	t.Cleanup(func() { close(s.stop) })
	whole := s.harness()
	h := conformance.Harness{
		Open:    func(context.Context) (backend.Backend, error) { return boaster{newClient(s)}, nil },
		Restart: whole.Restart,
		Process: func(ctx context.Context, skew time.Duration) (conformance.Process, error) {
			if skew != 0 {
				return nil, fmt.Errorf("%w: no clock can be wrong here", backend.ErrUnsupported)
			}
			return whole.Process(ctx, skew)
		},
		Skip: make(map[string]string),
	}
	for _, c := range conformance.Checks() {
		switch c.Name {
		case "ClientsShareStore", "RemovedHolderIsNotified", "WrongClockEndsNothingEarly", "RestartKeepsLeases":
		default:
			h.Skip[c.Name] = "not looked at"
		}
	}
	return h
}

// skippedClaims are the claims of the harness of skippedAsTheyRun that no check tests, with the expected report of
// each.
var skippedClaims = map[string]struct{ missing, reason string }{
	"Guarantees.ReportsLoss": {"Harness.Evict", "not proven: needs Harness.Evict"},
	"Guarantees.EnforcedBy": {"",
		"not proven: WrongClockEndsNothingEarly was skipped: not supported by this store: no clock can be wrong here"},
	"Guarantees.EarlyLoss": {"", "not proven: RestartKeepsLeases was skipped: a lease ends"},
}

// A claim is not proven if its check skips itself while it runs.
func TestSkippedChecksProveNoClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results, err := conformance.Execute(t.Context(), skippedAsTheyRun(t), conformance.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for field, want := range skippedClaims {
			if !slices.ContainsFunc(results, func(r conformance.Result) bool {
				return r.Name == field && r.Status == conformance.NotProven && r.Missing == want.missing &&
					strings.HasPrefix(r.Output, want.reason)
			}) {
				t.Errorf("%s is not reported as %q (missing %q)", field, want.reason, want.missing)
			}
		}
	})
}

// RunInBubble also reports the claims of skipped checks. The test runs it in a child process.
func TestRunReportsSkippedClaims(t *testing.T) {
	t.Parallel()
	const child = "ANYLOCK_TEST_SKIPPED_CLAIMS"
	if os.Getenv(child) != "" {
		conformance.RunInBubble(t, skippedAsTheyRun)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.parallel=1")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for field, want := range skippedClaims {
		if !strings.Contains(string(out), want.reason) {
			t.Errorf("%s: no %q in\n%s", field, want.reason, out)
		}
	}
}

// The results of a whole run include the unproven claims. The results of a selection do not.
func TestExecuteReportsClaims(t *testing.T) {
	t.Parallel()
	s := newServer("")
	defer close(s.stop)
	bare := conformance.Harness{Open: s.harness().Open, Skip: make(map[string]string)}
	for _, c := range conformance.Checks() {
		if c.Name != "ClientsShareStore" {
			bare.Skip[c.Name] = "takes time"
		}
	}
	results, err := conformance.Execute(t.Context(), bare, conformance.Options{})
	if err != nil {
		t.Fatal(err)
	}
	claims := 0
	for _, r := range results {
		switch {
		case r.Status == conformance.NotProven:
			claims++
			if !strings.HasPrefix(r.Name, "Guarantees.") || r.Rule == "" || r.Missing == "" || r.Output == "" {
				t.Errorf("incomplete: %+v", r)
			}
		case r.Name == "ClientsShareStore" && r.Status != conformance.Pass,
			r.Name != "ClientsShareStore" && r.Status != conformance.Skip,
			r.Missing == "" && r.Status == conformance.Skip && !strings.Contains(r.Output, "takes time"):
			t.Errorf("%+v", r)
		}
	}
	// The claims are: fencing twice, consistency, early loss, reach, lateness, the clocks of clients and of servers, and
	// shared leases twice.
	const made = 10
	if claims != made {
		t.Errorf("%d claims are not proven, want %d", claims, made)
	}
	if results, err = conformance.Execute(t.Context(), bare,
		conformance.Options{Run: only("ClientsShareStore")}); err != nil || len(results) != 1 {
		t.Errorf("%d results of one check, error %v", len(results), err)
	}
}

// Execute rejects a name in Harness.Skip that no check has, before it opens a client.
func TestSkipNamesAreChecked(t *testing.T) {
	h := newServer("").harness()
	h.Skip = map[string]string{"NoSuchCheck": "why not"}
	h.Open = func(context.Context) (backend.Backend, error) { t.Fatal("a client was opened"); return nil, nil }
	if _, err := conformance.Execute(t.Context(), h, conformance.Options{}); err == nil ||
		!strings.Contains(err.Error(), "NoSuchCheck") {
		t.Errorf("%v, want an error that names the check", err)
	}
}

// If each client has a store of its own, ClientsShareStore fails and every other check is skipped.
func TestUnsharedStoreStopsTheSuite(t *testing.T) {
	t.Parallel()
	s := newServer("each client has a store of its own")
	defer close(s.stop)
	results, err := conformance.Execute(t.Context(), s.harness(), conformance.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		want := conformance.Skip
		if r.Name == "ClientsShareStore" {
			want = conformance.Fail
		}
		if r.Status != want {
			t.Errorf("%s: %s, want %s: %s", r.Name, r.Status, want, r.Output)
		}
	}
}

// A failure names the broken rule, which need not be the rule of the check. Its output begins with the line of the
// check.
func TestFailuresNameRuleAndLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct{ bug, check, rule, output string }{
			{"no exclusion", "RenewKeepsAlive", "rule 1: ", "double grant"},
			// also if a release fails because a second grant has ended the lease
			{"no exclusion", "ExclusiveAcrossClients", "rule 1: ", "double grant"},
			{"keys share one lock", "KeysAreIndependent", "rule 8: ", "shares a lock with the key"},
			{"keys are folded to lower case", "KeysAreInjective", "rule 8: ", "shares a lock with the key"},
			{"Lost never closes", "OnLostCallsWhateverEndsIt", "rule 6: ", "Lost is not closed"},
		} {
			s := newServer(test.bug)
			defer close(s.stop)
			results, err := conformance.Execute(t.Context(), s.harness(), conformance.Options{Run: only(test.check)})
			if err != nil {
				t.Fatal(err)
			}
			r := results[0]
			if r.Status != conformance.Fail || !strings.HasPrefix(r.Broken, test.rule) ||
				!strings.Contains(r.Output, test.output) {
				t.Errorf("%s, %s: %s, broken %q:\n%s\nwant %q and %q", test.bug, test.check, r.Status, r.Broken, r.Output,
					test.rule, test.output)
			}
			if line, _, _ := strings.Cut(r.Output, " "); !strings.Contains(line, ".go:") || strings.HasPrefix(line, "run.go") {
				t.Errorf("%s, %s: the output does not begin with the check's line: %s", test.bug, test.check, r.Output)
			}
		}
	})
}
