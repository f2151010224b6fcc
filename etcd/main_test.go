package etcd

import (
	"context"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestMain(m *testing.M) {
	process.Main(func(ctx context.Context, url string) (backend.Backend, error) { return openURL(ctx, url) })
	storetest.VerifyTestMain(servers.Sharing(m))
}
