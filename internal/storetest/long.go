package storetest

import "testing"

// Long leaves a test to the complete run, which is any without -short: "make test-all" and .ci/run. It says what takes long.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("left to make test-all: " + why)
	}
}
