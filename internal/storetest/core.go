package storetest

import (
	"testing"

	"github.com/anylock/lock/conformance"
)

// A Suite is conformance.Run, or a shorter version of it.
type Suite func(t *testing.T, newHarness func(t *testing.T) conformance.Harness)

// Core returns conformance.RunCore with extra, the names of checks and groups that run in addition to the core.
func Core(extra ...string) Suite {
	return func(t *testing.T, newHarness func(t *testing.T) conformance.Harness) {
		t.Helper()
		conformance.RunCore(t, newHarness, extra...)
	}
}

// Main runs conformance.Run for the usual setup of a store. With -short it runs conformance.RunCore, because "make
// test-race" and "make test-all" run the whole suite.
func Main(t *testing.T, newHarness func(t *testing.T) conformance.Harness) {
	t.Helper()
	if testing.Short() {
		conformance.RunCore(t, newHarness)
		return
	}
	conformance.Run(t, newHarness)
}
