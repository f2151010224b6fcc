package pair_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis logs every outage, and these tests cause outages on purpose
	process.Main(openURL)
	storetest.VerifyTestMain(servers.Sharing(m), storetest.GoRedisDials())
}

func openURL(ctx context.Context, url string) (backend.Backend, error) {
	b, _, err := driver.Open(ctx, url)
	return b, err
}
