package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	otherprocess "github.com/anylock/lock/conformance/process"
)

// A conformRun is one call of "anylock conform".
type conformRun struct {
	*app
	only     string
	parallel int
	many     int
	faults   bool
	core     bool
	list     bool
	timeout  seconds
	format   *choice
}

// conformHelp is the long help text of conform.
const conformHelp = `conform runs the conformance suite on a store: exclusion, expiry, ownership,
renewal, loss, waiting, cancellation, tokens, keys. It uses fresh random keys
and ignores a lock_prefix in the URL, so that it does not disturb other users
of the store. It skips checks of promises that the store does not make, and
checks that need a failure that the command cannot cause. The summary lists
what was missing.

With --faults, some clients reach the store through a proxy that cuts, delays
and drops their traffic, and some run in processes that are frozen and killed.
The store's servers are not affected.

With --core, conform runs less than two thirds of the checks, which find every
bug that the suite is known to find. Run the whole suite once on a store, and
the core after a change of the store's version or settings.

Ctrl-C stops the run and prints the results so far; a second Ctrl-C ends it at
once.

Exit codes: 0 all checks passed; 1 some failed or gave no verdict; 64 wrong
usage; 69 the store cannot be reached; 74 the report cannot be written; 128 + N
if signal N came before the end and nothing had failed.`

func (a *app) conformCommand() *cobra.Command {
	c := &conformRun{app: a, format: newChoice("text", "json", "junit")}
	cmd := &cobra.Command{
		Use:   "conform",
		Short: "Check that a store keeps the rules of the conformance suite",
		Long:  conformHelp,
		Example: `  anylock conform --backend redis://cache-1:6379
  anylock conform --backend redis://cache-1:6379 --faults
  anylock conform --core --format json
  anylock conform --run 'FIFO|Cancel' --format junit > report.xml`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := conformance.Options{Parallel: c.parallel, Timeout: c.timeout.d, Core: c.core}
			switch {
			case c.parallel < 0:
				return usagef("--parallel must not be negative")
			case c.many < 0 || c.many == 1:
				return usagef("--many must be at least 2")
			}
			if c.only != "" {
				run, err := regexp.Compile(c.only)
				if err != nil {
					return usagef("--run: %w", err)
				}
				o.Run = run
			}
			checks := selected(o)
			if len(checks) == 0 {
				return usagef("--run matches no check%s", map[bool]string{true: " of the core"}[c.core])
			}
			if c.list {
				return c.printList(checks)
			}
			return c.run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.only, "run", "", "run only the checks whose name or group matches `REGEXP`")
	flags.BoolVar(&c.core, "core", false, "run only the core: fewer checks, which find all known bugs")
	flags.BoolVar(&c.faults, "faults", false, "put a faulty proxy in front of the store, and freeze and kill processes")
	flags.BoolVar(&c.list, "list", false, "list the checks without running them")
	flags.IntVar(&c.many, "many", 0, "how many leases or waiters one client may have at once (default depends "+
		"on the store)")
	flags.IntVar(&c.parallel, "parallel", 0, "how many checks run at once (default depends on the store)")
	flags.Var(&c.timeout, "timeout", "time limit for one check (default depends on the store's guarantees)")
	flags.Var(c.format, "format", c.format.usage())
	return cmd
}

// selected returns the checks that o selects.
func selected(o conformance.Options) (checks []conformance.Check) {
	from := conformance.Checks()
	if o.Core {
		from = conformance.Core()
	}
	for _, c := range from {
		if c.Matches(o.Run) {
			checks = append(checks, c)
		}
	}
	return checks
}

func (c *conformRun) run(ctx context.Context, o conformance.Options) error {
	rawURL, err := c.backendURL(ctx)
	if err != nil {
		return err
	}
	if c.faults {
		if err := link.Linkable(rawURL); err != nil {
			return usagef("--faults needs a store that is reached by host and port: %w", err)
		}
	}
	if rawURL, err = sharedURL(rawURL, "conform-"); err != nil {
		return storeError(err)
	}
	d, err := driver.Lookup(rawURL)
	if err != nil {
		return storeError(err)
	}
	c.sayVerbose("backend %s", driver.Redact(rawURL))
	ctx, stop := interruptible(ctx)
	shown := newProgress(c.stdout, c.stderr, os.Getenv("TERM"), len(selected(o)))
	brief := shown.live() && !c.verbose
	o.Began = shown.began
	o.NotReady = func(err error) { c.say("waiting: %v", err) }
	o.Observe = func(r conformance.Result) {
		text := ""
		if c.format.is("text") {
			text = resultText(r, brief)
		}
		shown.ended(r, text)
	}
	results, err := conformance.Execute(ctx, c.harness(d, rawURL), o)
	shown.end()
	interrupted := stop()
	if err != nil && (interrupted == nil || results == nil) {
		return cmp.Or(interrupted, storeError(err))
	}
	if c.format.is("text") && !brief {
		fmt.Fprintln(c.stdout)
	}
	if err := (suiteResult{d.Name, results}).write(c.stdout, c.format.word); err != nil {
		return err
	}
	switch n := count(results); {
	case n.Failed+n.NoVerdict > 0:
		return exitWith(exitChecksFailed)
	case interrupted != nil && n.Interrupted > 0:
		return interrupted
	}
	return nil
}

// harness returns the harness for the store that rawURL names.
func (c *conformRun) harness(d driver.Driver, rawURL string) conformance.Harness {
	h := conformance.Harness{
		Open: func(ctx context.Context) (backend.Backend, error) {
			b, err := openForSuite(ctx, rawURL)
			if err != nil {
				return nil, &lock.Error{Op: "open", Backend: d.Name, Err: err}
			}
			return b, nil
		},
		Many: c.many,
	}
	if c.faults {
		h.Linked, h.Process = link.URL(rawURL), otherprocess.Self(rawURL)
	}
	return h
}

// openForSuite opens a store for the suite, in this process and in the processes that the suite starts.
func openForSuite(ctx context.Context, rawURL string) (backend.Backend, error) {
	b, _, err := driver.Open(ctx, rawURL)
	return b, err
}

// A checkRecord describes a check in JSON.
type checkRecord struct {
	Name  string   `json:"name"`
	Group string   `json:"group"`
	Rule  string   `json:"rule"`
	Rules []int    `json:"rules,omitempty"`
	Needs []string `json:"needs,omitempty"`
}

func (c *conformRun) printList(checks []conformance.Check) error {
	if c.format.is("junit") {
		return usagef("--list prints text or json")
	}
	records := make([]checkRecord, len(checks))
	for i, check := range checks {
		r := checkRecord{Name: check.Name, Group: check.Group, Rule: check.Rule, Rules: check.Rules()}
		for _, n := range check.Needs {
			r.Needs = append(r.Needs, n.Missing)
		}
		records[i] = r
	}
	if c.format.is("json") {
		return writeJSON(c.stdout, records)
	}
	var list strings.Builder
	for _, r := range records {
		fmt.Fprintf(&list, "%s/%s\n     %s\n", r.Group, r.Name, r.Rule)
		for _, n := range r.Needs {
			fmt.Fprintf(&list, "     needs %s\n", n)
		}
	}
	_, err := fmt.Fprint(c.stdout, list.String())
	return err
}
