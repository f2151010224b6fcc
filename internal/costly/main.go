// Command costly finds the checks of the core that use the most processor time on real servers. It writes
// conformance/costly.go, the list of the checks that RunCore skips with -short. "make costly" runs it.
//
// Each check of the core runs alone, in its own process, as "go test -short" runs it. Its cost is the user and system
// time of that process and of the servers that it starts, minus the cost of ClientsShareStore, which runs before every
// check. The list is the smallest set of checks that together use the share -share of the time.
//
// Use a quiet machine, and stores whose servers are installed. Three stores take about ten minutes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/internal/moduleroot"
)

const gateCheck = "ClientsShareStore" // runs before every other check

func main() {
	share := flag.Float64("share", 0.75, "the share of the processor time that the listed checks take")
	run := flag.String("run", "", "measure only checks that this expression matches, and do not write the list")
	flag.Parse()
	only, err := regexp.Compile(*run)
	if err == nil {
		err = record(flag.Args(), *share, only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "costly:", err)
		os.Exit(1)
	}
}

// record measures the checks that only matches. Each store is a folder of this module. record writes the list if only
// is empty.
func record(stores []string, share float64, only *regexp.Regexp) error {
	dir, err := moduleroot.Find()
	if err != nil {
		return err
	}
	if len(stores) == 0 {
		return fmt.Errorf("name at least one store, as in: costly etcd zookeeper postgres")
	}
	costs := make(map[string]time.Duration)
	for _, store := range stores {
		if err := measure(filepath.Join(dir, store), only, costs); err != nil {
			return fmt.Errorf("%s: %w", store, err)
		}
	}
	if only.String() != "" {
		return nil
	}
	text := source(stores, costliest(costs, share), costs)
	return os.WriteFile(filepath.Join(dir, "conformance", "costly.go"), text, 0o644)
}

// measure adds the cost of each check on the store in dir to costs, and prints it.
func measure(dir string, only *regexp.Regexp, costs map[string]time.Duration) error {
	bin, err := os.CreateTemp("", "costly-*.test")
	if err != nil {
		return err
	}
	defer os.Remove(bin.Name())
	if err := bin.Close(); err != nil {
		return err
	}
	build := exec.Command("go", "test", "-c", "-o", bin.Name(), ".")
	build.Dir, build.Stderr = dir, os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	checks := conformance.Core()
	gate := checks[slices.IndexFunc(checks, func(c conformance.Check) bool { return c.Name == gateCheck })]
	base, err := processorTime(dir, bin.Name(), gate)
	if err != nil {
		return err
	}
	for _, c := range checks {
		if c.Name == gateCheck || !c.Matches(only) {
			continue
		}
		cost, err := processorTime(dir, bin.Name(), c)
		if err != nil {
			return err
		}
		cost = max(cost-base, 0)
		costs[c.Name] += cost
		fmt.Printf("%s\t%s\t%.2f s\n", filepath.Base(dir), c.Name, cost.Seconds())
	}
	return nil
}

// processorTime returns the user and system time of a test binary that runs c alone, and of the servers that it starts.
func processorTime(dir, bin string, c conformance.Check) (time.Duration, error) {
	const limit = 10 * time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "-test.short", "-test.run", "^TestConformance$/^"+c.Group+"$/^"+c.Name+"$")
	cmd.Dir = dir
	// FULL: -short skips no check.
	cmd.Env = append(os.Environ(), "ANYLOCK_CONFORMANCE_FULL=1", "ANYLOCK_TEST_REQUIRE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", c.Name, err, out)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}
