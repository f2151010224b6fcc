package zookeeper

import (
	"testing"

	"github.com/anylock/lock/internal/storetest"
)

// opened opens a store for a test, whose requests are not given up while the machine stands still for some seconds.
func opened(t testing.TB, url string) *Backend {
	t.Helper()
	b := storetest.Opened[*Backend](t, url)
	b.options.Timeout = 4 * soon
	return b
}

// What all stores' tests do.
var (
	req     = storetest.Try
	waiting = storetest.Wait
	acquire = storetest.Acquire
	release = storetest.Release
	until   = storetest.Until
)
