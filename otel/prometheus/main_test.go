package prometheus_test

import (
	"context"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestMain(m *testing.M) {
	goredis.SetLogger(quiet{}) // go-redis tells every outage; here they are made on purpose
	goleak.VerifyTestMain(servers.Sharing(m), storetest.GoRedisDials())
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
