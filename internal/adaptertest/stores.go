// Package adaptertest contains helpers for the tests of all adapters. These tests run on several stores, and compare
// the adapter's page with its example.
package adaptertest

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/anylock/lock"
	_ "github.com/anylock/lock/etcd"
	_ "github.com/anylock/lock/file"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	_ "github.com/anylock/lock/redis"
)

// Main runs the tests of a module. It fails if they leave a goroutine running.
func Main(m *testing.M) {
	logging.Disable() // go-redis logs every lost connection
	storetest.VerifyTestMain(servers.Sharing(m), storetest.GoRedisDials())
}

// OnStores runs test on each of the named kinds of store in parallel. Each run gets the URL of its own store.
func OnStores(t *testing.T, test func(t *testing.T, url string), kinds ...string) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url, _ := servers.Store(t, kind)
			test(t, url)
		})
	}
}

// Open opens a client of a store. The client is closed at the end of the test. If the server does not respond in time,
// because the machine is busy, Open tries again.
func Open(t *testing.T, url string, opts ...lock.Option) *lock.Locker {
	t.Helper()
	locks, err := lock.Open(t.Context(), url, opts...)
	for end := time.Now().Add(30 * time.Second); errors.Is(err, lock.ErrUnavailable) && time.Now().Before(end); {
		locks, err = lock.Open(t.Context(), url, opts...)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := locks.Close(); err != nil {
			t.Error(err)
		}
	})
	return locks
}
