package storetest

import "testing"

// Long skips a slow test with -short. Only a complete run, such as "make test-all", includes the test. why is the
// reason.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("left to make test-all: " + why)
	}
}
