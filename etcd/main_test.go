package etcd

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/servers"
)

func TestMain(m *testing.M) {
	process.Main(func(ctx context.Context, url string) (backend.Backend, error) { return openURL(ctx, url) })
	goleak.VerifyTestMain(servers.Sharing(m))
}
