package bench_test

import (
	"context"
	"testing"

	"github.com/anylock/lock/bench"
	_ "github.com/anylock/lock/etcd"
	_ "github.com/anylock/lock/file"
	"github.com/anylock/lock/internal/storetest"
	_ "github.com/anylock/lock/memcached"
	_ "github.com/anylock/lock/memory"
	_ "github.com/anylock/lock/postgres"
	_ "github.com/anylock/lock/redis"
	_ "github.com/anylock/lock/redis/redlock"
	_ "github.com/anylock/lock/zookeeper"
)

func TestMain(m *testing.M) {
	bench.Main(func(url string) (bench.Store, error) { return bench.URL(context.Background(), url) })
	storetest.VerifyTestMain(m)
}
