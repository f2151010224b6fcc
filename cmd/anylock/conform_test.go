package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/internal/servers"
)

// conforms runs a few checks of "anylock conform" on a store, as a user would. The stores' own tests run the whole
// suite.
func conforms(t *testing.T, url string) {
	t.Run("conform", func(t *testing.T) {
		t.Parallel()
		cmd := exec.Command("anylock", "conform", "--run",
			"^(ClientsShareStore|OneAttemptWins|StaleReleaseSparesNewHolder|WaiterGetsReleasedKey|TokensIncrease|ExtremesAreAccepted)$")
		cmd.Env = append(os.Environ(), "ANYLOCK_URL="+url)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// startRedlock starts three nodes with the default parameters. They may vote at once.
func startRedlock(t *testing.T) string {
	t.Helper()
	url := "redis+redlock://"
	for i := range 3 {
		s := servers.Redis(t)
		servers.RedisSet(t, s, "anylock:redlock:birth", "new")
		if i > 0 {
			url += ","
		}
		url += s.Addr
	}
	return url
}

// asksMost selects short checks that come close to a server's limits: many leases, waiters, connections and requests at
// once, and the shortest and longest TTLs.
const asksMost = "^(crowds/.*|ClientsShareStore|DeadlineHasMargin|RenewalsAreKept|ExtremesAreAccepted|KeysAreInjective|" +
	"LongQueueIsServed|OneAttemptWins|LeasesCostNoGoroutines|CloseRacesAcquire)$"

// The command passes the suite on every server in its packaged configuration, with the default limits on connections,
// default timeouts, and new Redlock nodes. The complete run covers asksMost and the core. The quick run covers a few
// checks, which show that the command reaches each store, and shortens the time in which new nodes cannot vote.
func TestConformStock(t *testing.T) {
	t.Parallel()
	for store, start := range servers.Stock() {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			url, run, least := start(t), asksMost, 12
			if testing.Short() {
				run, least = "^(ClientsShareStore|DeadlineHasMargin|OneAttemptWins|CloseRacesAcquire)$", 4
				if store == "redlock" {
					url += "?lock_max_ttl=20s"
				}
			}
			stderr := conformStock(t, least, "--backend", url, "--run", run)
			if waited := strings.Contains(stderr, "waiting: "); waited != (store == "redlock") {
				t.Errorf("stderr %q", stderr)
			}
			if !testing.Short() {
				conformStock(t, 30, "--backend", url, "--core")
			}
		})
	}
}

// conformStock runs the command and returns its standard error. At least that many checks must pass.
func conformStock(t *testing.T, least int, args ...string) string {
	t.Helper()
	cmd := exec.Command("anylock", append([]string{"conform", "--format", "json"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var got suiteRecord
	if e := json.Unmarshal(out, &got); err != nil || e != nil || got.Failed > 0 || got.Interrupted > 0 ||
		got.Passed < least {
		t.Fatalf("%v, %v: %d checks passed\n%s%s", err, e, got.Passed, failures(got), stderr.Bytes())
	}
	t.Logf("%d checks passed, %d skipped", got.Passed, got.Skipped)
	return stderr.String()
}

// --core selects the checks of the core, and --run selects among these.
func TestConformCore(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("anylock", "conform", "--list", "--core", "--format", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var listed []checkRecord
	if err := json.Unmarshal(out, &listed); err != nil {
		t.Fatal(err)
	}
	inCore := make(map[string]bool)
	for _, c := range listed {
		inCore[c.Name] = true
	}
	if len(listed) != len(conformance.Core()) || !inCore["ClientsShareStore"] {
		t.Errorf("%d checks, want the %d of the core", len(listed), len(conformance.Core()))
	}
	for _, c := range conformance.Checks() {
		if !inCore[c.Name] {
			out, err := exec.Command("anylock", "conform", "--list", "--core", "--run", "^"+c.Name+"$").CombinedOutput()
			if err == nil || !strings.Contains(string(out), "no check of the core") {
				t.Errorf("%s is not in the core: %v\n%s", c.Name, err, out)
			}
			return
		}
	}
	t.Error("all checks are in the core")
}

// failures returns the suite's report on the checks that failed or were interrupted.
func failures(s suiteRecord) string {
	var b strings.Builder
	for _, r := range s.Results {
		if r.Status == string(conformance.Fail) || r.Interrupted {
			fmt.Fprintf(&b, "%s %s (%.1f s): %s\n%s\n", r.Status, r.Name, r.Seconds, r.Rule, r.Output)
		}
	}
	return b.String()
}

// --faults runs the checks that need a proxy and other processes.
func TestConformFaults(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("anylock", "conform", "--faults", "--backend", servers.RedisURL(t), "--format", "json",
		"--run", "^(WakeUpCutParksNobody|PartitionHonoursContext|KilledHolderExpires)$")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got suiteRecord
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if got.Failed > 0 || got.Skipped > 0 || got.Passed < 2 {
		t.Errorf("%d checks passed\n%s", got.Passed, failures(got))
	}
}

func TestProgress(t *testing.T) {
	var results, line bytes.Buffer
	p := &progress{results: &results, total: 3, liveLine: &liveLine{
		out: &line, width: func() int { return 40 }, stop: func() {},
	}}
	screen := func() string { return screenOf(line.String() + results.String()) }
	ended := func(r conformance.Result) { p.ended(r, resultText(r, true)) }
	p.began(conformance.Check{Name: "First"})
	p.began(conformance.Check{Name: "Second"})
	p.showLocked(p.text(2 * time.Second))
	if got, want := screen(), "0 of 3 checks, 2 s: First, Second"; got != want {
		t.Errorf("screen %q, want %q", got, want)
	}
	ended(conformance.Result{Name: "First", Status: conformance.Pass})
	p.began(conformance.Check{Name: "AVeryLongNameOfACheck"})
	p.showLocked(p.text(3 * time.Second))
	if got, want := screen(), "1 of 3 checks, 3 s: Second, AVeryLongN…"; got != want || utf8.RuneCountInString(got) != 39 {
		t.Errorf("screen %q, want %q", got, want)
	}
	ended(conformance.Result{Name: "Second", Group: "waiting", Status: conformance.Fail, Rule: "rule 1: x",
		Output: "found y"})
	if got, want := screen(), "fail waiting/Second (0s)\n     rule 1: x\n     found y\n"; got != want {
		t.Errorf("screen %q, want %q", got, want)
	}
	line.WriteString(results.String()) // later results appear below
	results.Reset()
	p.showLocked(p.text(4 * time.Second))
	p.end()
	if got, want := screen(), "fail waiting/Second (0s)\n     rule 1: x\n     found y\n"; got != want {
		t.Errorf("screen at the end %q, want %q", got, want)
	}
	if !strings.Contains(line.String(), "2 of 3 checks, 1 failed, 4 s") {
		t.Errorf("%q", line.String())
	}
}

// screenOf returns what a terminal shows after it has received s.
func screenOf(s string) string {
	var done string
	var row []rune
	column := 0
	for _, r := range s {
		switch r {
		case '\n':
			done += strings.TrimRight(string(row), " ") + "\n"
			row, column = nil, 0
		case '\r':
			column = 0
		case '\b':
			column--
		default:
			if column < len(row) {
				row[column] = r
			} else {
				row = append(row, r)
			}
			column++
		}
	}
	return done + strings.TrimRight(string(row), " ")
}
