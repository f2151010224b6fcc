package zookeeper

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
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

// expired reports whether err says that l is lost, after its deadline: the machine has stood still for so long.
func expired(l backend.Lease, err error) bool {
	return errors.Is(err, backend.ErrLost) && !time.Now().Before(l.Deadline())
}

// releaseOrExpire releases a lease that is short enough to expire on a machine that stands still.
func releaseOrExpire(t testing.TB, l backend.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil && !expired(l, err) {
		t.Errorf("release: %v, %v before the deadline", err, time.Until(l.Deadline()))
	}
}
