package storetest

import (
	"os"
	"testing"

	"github.com/anylock/lock/conformance"
)

// A Suite is conformance.Run, or a shorter run.
type Suite func(t *testing.T, newHarness func(t *testing.T) conformance.Harness)

// Core returns conformance.RunCore with extra, the names of checks and groups that run beside the core.
func Core(extra ...string) Suite {
	return func(t *testing.T, newHarness func(t *testing.T) conformance.Harness) {
		t.Helper()
		conformance.RunCore(t, newHarness, extra...)
	}
}

// Main is conformance.Run, for the usual setup of a store. With -short, unless ANYLOCK_CONFORMANCE_FULL is 1, it runs
// the core and the histories only: the whole suite runs in "make test-race" and "make test-all".
func Main(t *testing.T, newHarness func(t *testing.T) conformance.Harness) {
	t.Helper()
	if testing.Short() && os.Getenv("ANYLOCK_CONFORMANCE_FULL") != "1" {
		conformance.RunCore(t, newHarness, "histories")
		return
	}
	conformance.Run(t, newHarness)
}
