package zookeeper

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

// opened opens a store for a test. Its requests do not time out if the machine stands still for some seconds.
func opened(t testing.TB, url string) *Backend {
	t.Helper()
	b := storetest.Opened[*Backend](t, url)
	b.options.Timeout = 4 * soon
	return b
}

// openNew is New, repeated if no server responds in time because the machine is busy.
func openNew(t testing.TB, servers []string, options *Options) (*Backend, error) {
	t.Helper()
	b, err := New(t.Context(), servers, options)
	for end := time.Now().Add(6 * soon); errors.Is(err, backend.ErrUnavailable) && time.Now().Before(end); {
		b, err = New(t.Context(), servers, options)
	}
	return b, err
}

// Helpers that the tests of all stores share.
var (
	req     = storetest.Try
	waiting = storetest.Wait
	acquire = storetest.Acquire
	release = storetest.Release
	until   = storetest.Until
)

// expired reports whether err is ErrLost and the deadline of l has passed, because the machine stood still.
func expired(l backend.Lease, err error) bool {
	return errors.Is(err, backend.ErrLost) && !time.Now().Before(l.Deadline())
}

// releaseOrExpire releases a lease so short that it may expire if the machine stands still.
func releaseOrExpire(t testing.TB, l backend.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil && !expired(l, err) {
		t.Errorf("release: %v, %v before the deadline", err, time.Until(l.Deadline()))
	}
}
