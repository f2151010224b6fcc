package main

import (
	"context"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

func (a *app) conformCommand() *cobra.Command {
	var (
		only     string
		parallel int
		timeout  seconds
	)
	format := newChoice("text", "json", "junit")
	cmd := &cobra.Command{
		Use:   "conform",
		Short: "Prove that a store keeps the rules",
		Long: `conform runs the conformance suite on a store: exclusion, expiry, ownership, renewal, loss, waiting, cancellation,
tokens, keys. It works on fresh random keys, so that it does not disturb others who use the store; a lock_prefix in the
URL is not used. Checks that need a guarantee which the store does not give, or a fault that only a test can make, are
skipped.

Exit codes: 0 all checks passed; 1 some failed; 64 wrong usage; 69 the store cannot be reached.`,
		Example: `  anylock conform --backend redis://cache-1:6379
  anylock conform --run 'FIFO|Cancel' --format junit > report.xml`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if parallel < 0 {
				return usagef("--parallel must not be negative")
			}
			o := conformance.Options{Parallel: parallel, Timeout: timeout.d}
			if only != "" {
				run, err := regexp.Compile(only)
				if err != nil {
					return usagef("--run: %w", err)
				}
				o.Run = run
			}
			return a.conform(cmd.Context(), o, format)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&only, "run", "", "only the checks whose name matches this `REGEXP`")
	flags.IntVar(&parallel, "parallel", 0, "how many checks run at once (default what the suite thinks best)")
	flags.Var(&timeout, "timeout", "time for one check (default by the store's guarantees)")
	flags.Var(format, "format", format.usage())
	return cmd
}

func (a *app) conform(ctx context.Context, o conformance.Options, format *choice) error {
	rawURL, err := a.backendURL()
	if err != nil {
		return err
	}
	if rawURL, err = conformURL(rawURL); err != nil {
		return storeError(err)
	}
	a.sayVerbose("backend %s", backend.Redact(rawURL))
	signals := make(chan os.Signal, 1)
	notify(signals, signalsEnding)
	defer signal.Stop(signals)
	ctx, stopWatch := untilSignal(ctx, signals)

	var name atomic.Value
	harness := conformance.Harness{Open: func(ctx context.Context) (backend.Backend, error) {
		b, driver, err := backend.DefaultMux.Open(ctx, rawURL)
		if err != nil {
			return nil, &lock.Error{Op: "open", Backend: driver, Err: err}
		}
		name.Store(driver)
		return b, nil
	}}
	report := newReport(a.stdout, format)
	o.Observe = report.observe
	results, err := conformance.Execute(ctx, harness, o)
	if s := stopWatch(); s != nil {
		return s.exit()
	}
	if err != nil {
		return storeError(err)
	}
	if len(results) == 0 {
		return usagef("--run matches no check")
	}
	driver, _ := name.Load().(string)
	if err := report.finish(driver, results); err != nil {
		return err
	}
	for _, r := range results {
		if r.Status == conformance.Fail {
			return exitWith(exitChecksFailed)
		}
	}
	return nil
}

// conformURL is rawURL as the suite needs it: without lock_prefix, which is package lock's, and naming a store that the
// suite's clients share.
func conformURL(rawURL string) (string, error) {
	rest, _, _, err := backend.TakeParam(rawURL, "lock_prefix")
	if err != nil {
		return "", err
	}
	u, err := backend.SplitURL(rest)
	if err != nil {
		return "", err
	}
	if u.Scheme == "memory" && len(u.Hosts) == 0 && u.Path == "" {
		return "memory://conform-" + strconv.Itoa(os.Getpid()), nil
	}
	return rest, nil
}
