package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/bench"
)

// A benchRun is one call of anylock bench.
type benchRun struct {
	*app
	options  bench.Options
	backends []string
	files    []string // with URLs of further stores
	hold     seconds
	duration seconds
	format   *choice

	jsonFile, htmlFile string
}

func (a *app) benchCommand() *cobra.Command {
	b := &benchRun{app: a, format: newChoice("text", "json", "gobench")}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure stores side by side",
		Long: `bench measures locks on one or more stores. The stores take turns in rounds, so
that noise on the machine affects all of them alike. Without --backend and
--backend-file, bench measures memory: and file: in a temporary directory, and
ignores $ANYLOCK_URL and $ANYLOCK_URL_FILE. It uses fresh random keys.

Scenarios:
` + scenarioList() + `
Ctrl-C stops bench early and prints the results so far.

Exit codes: 0 measured; 1 a store failed in a scenario; 64 wrong usage; 69 a
store cannot be reached; 74 the report cannot be written; 128 + N if signal N
came before the end.`,
		Example: `  anylock bench
  anylock bench --backend redis://cache-1 --backend etcd://etcd-1 --html r.html
  anylock bench --scenario serial --duration 2s
  anylock bench --scenario hot-clients --clients 64 --workers 1 --hold 1ms`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&b.backends, "backend", nil, "a store's `URL`; may be repeated (default memory and file)")
	flags.StringArrayVar(&b.files, "backend-file", nil,
		"read a store's URL from the first line of `FILE`, to keep its password out of ps; may be repeated")
	flags.StringArrayVar(&b.options.Scenarios, "scenario", nil,
		"run only the scenario `NAME` (waiters-250 for 250 waiters, distinct-8 for 8 workers); may be repeated")
	flags.IntVar(&b.options.Clients, "clients", 0, "number of clients in scenarios with several (default 8)")
	flags.IntVar(&b.options.Workers, "workers", 0, "workers per client (default 64 with one client, 8 with several)")
	flags.Var(&b.hold, "hold", "how long a contended key is held (default 1ms with several clients, 0 with one)")
	flags.Var(&b.duration, "duration", "time for one scenario on one store in one round (default 60ms)")
	flags.IntVar(&b.options.Rounds, "rounds", 0, "number of rounds (default 5)")
	flags.IntVar(&b.options.Held, "held", 0, "number of leases in the scenario held (default 1000)")
	flags.StringVar(&b.jsonFile, "json", "", "also write the report as JSON to `FILE`")
	flags.StringVar(&b.htmlFile, "html", "", "also write the report as an HTML page with charts to `FILE`")
	flags.Var(b.format, "format", b.format.usage())
	return cmd
}

func scenarioList() string {
	var list strings.Builder
	for _, s := range bench.Scenarios(bench.Options{Waiters: []int{10}}) {
		fmt.Fprintf(&list, "  %-15s %s\n", strings.TrimSuffix(s.Name, "-10"),
			strings.ReplaceAll(s.Title, " 10 ", " 1 to 1000 "))
	}
	return list.String()
}

func (b *benchRun) run(cmd *cobra.Command) error {
	if err := b.setOptions(cmd); err != nil {
		return err
	}
	files, err := openReports(b.jsonFile, b.htmlFile)
	if err != nil {
		return err
	}
	defer files.close()
	urls, cleanUp, err := b.urls(cmd.Context())
	if err != nil {
		return err
	}
	defer cleanUp()
	ctx, stop := interruptible(cmd.Context())
	if err := b.openStores(ctx, urls); err != nil {
		return cmp.Or(stop(), err)
	}
	report, err := b.measure(ctx)
	interrupted := stop()
	if err != nil {
		return usagef("%w", err)
	}
	// Write the files first: nobody may be reading standard output.
	if err := errors.Join(files.write(report), b.print(report)); err != nil {
		return err
	}
	if interrupted != nil && report.Interrupted {
		return interrupted
	}
	for _, r := range report.Results {
		if r.Problem != "" {
			return exitWith(exitChecksFailed)
		}
	}
	return nil
}

// setOptions checks the flags and sets b.options, before any store is opened.
func (b *benchRun) setOptions(cmd *cobra.Command) error {
	for _, name := range []string{"clients", "workers", "rounds", "held"} {
		if f := cmd.Flags().Lookup(name); f.Changed {
			if n, err := strconv.Atoi(f.Value.String()); err != nil || n < 1 {
				return usagef("--%s must be at least 1", name)
			}
		}
	}
	b.options.Hold, b.options.Duration = b.hold.d, b.duration.d
	if b.hold.isSet && b.hold.d == 0 {
		b.options.Hold = -1
	}
	if b.duration.isSet && b.duration.d == 0 {
		return usagef("--duration must be more than 0")
	}
	o := b.options
	o.Stores = []bench.Store{{}}
	if err := o.Validate(); err != nil {
		return usagef("%w", err)
	}
	return nil
}

// urls returns the URLs that the flags name. By default it returns those of the memory store and of a temporary file
// store, which need no server. cleanUp removes the temporary directory.
func (b *benchRun) urls(ctx context.Context) (urls []string, cleanUp func(), err error) {
	urls = b.backends
	b.warnOfPassword("--backend", urls...)
	for _, file := range b.files {
		rawURL, err := readURL(ctx, "--backend", text{}, "--backend-file", text{file, true})
		if err != nil {
			return nil, nil, err
		}
		b.warnOfReaders("--backend-file", file, rawURL)
		urls = append(urls, rawURL)
	}
	for _, rawURL := range urls {
		if err := checkScheme(rawURL); err != nil {
			return nil, nil, err
		}
	}
	if len(urls) > 0 {
		return urls, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "anylock-bench-")
	return []string{"memory:", fileURL(dir)}, func() { os.RemoveAll(dir) }, err
}

// openStores opens the stores. If several stores have the same name, it numbers them.
func (b *benchRun) openStores(ctx context.Context, urls []string) error {
	named := make(map[string]int)
	for _, rawURL := range urls {
		rawURL, err := sharedURL(rawURL, "bench-")
		if err != nil {
			return storeError(err)
		}
		b.sayVerbose("backend %s", driver.Redact(rawURL))
		s, err := bench.URL(ctx, rawURL)
		if err != nil {
			return storeError(err)
		}
		if named[s.Name]++; named[s.Name] > 1 {
			s.Name += "-" + strconv.Itoa(named[s.Name])
		}
		b.options.Stores = append(b.options.Stores, s)
	}
	return nil
}

// openForBench opens a store in a child process that holds a key.
func openForBench(rawURL string) (bench.Store, error) { return bench.URL(context.Background(), rawURL) }

func (b *benchRun) measure(ctx context.Context) (*bench.Report, error) {
	var now atomic.Value
	now.Store("")
	begun := time.Now()
	line := newLiveLine(b.stderr, os.Getenv("TERM"), func() string { return now.Load().(string) })
	defer line.end()
	b.options.Observe = func(p bench.Progress) {
		left := "" // an estimate
		if p.Done > 0 {
			rest := time.Since(begun) / time.Duration(p.Done) * time.Duration(p.Total-p.Done)
			left = fmt.Sprintf(", %d s left", int(rest.Seconds()+0.5))
		}
		now.Store(fmt.Sprintf("round %d of %d, %d of %d%s: %s on %s", p.Round, max(b.options.Rounds, p.Round), p.Done,
			p.Total, left, p.Scenario, p.Store))
	}
	return bench.Run(ctx, b.options)
}

func (b *benchRun) print(report *bench.Report) error {
	switch b.format.word {
	case "json":
		return report.WriteJSON(b.stdout)
	case "gobench":
		return report.WriteGoBench(b.stdout)
	}
	return report.WriteTextWithin(b.stdout, widthOf(b.stdout))
}
