package certmagiclock_test

import (
	"context"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/anylock/lock"
	_ "github.com/anylock/lock/file"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	_ "github.com/anylock/lock/redis"
)

func TestMain(m *testing.M) {
	goredis.SetLogger(quiet{}) // go-redis tells every lost connection
	goleak.VerifyTestMain(servers.Sharing(m), storetest.GoRedisDials())
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// onStores runs test with the URL of a store of its own, at once on each of two kinds.
func onStores(t *testing.T, test func(t *testing.T, url string)) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) { t.Parallel(); test(t, "redis://"+servers.Redis(t).Addr) })
	t.Run("file", func(t *testing.T) { t.Parallel(); test(t, "file://"+t.TempDir()) })
}

func open(t *testing.T, url string, opts ...lock.Option) *lock.Locker {
	t.Helper()
	locks, err := lock.Open(t.Context(), url, opts...)
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
