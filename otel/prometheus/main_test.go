package prometheus_test

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis logs every outage; here they are made on purpose
	goleak.VerifyTestMain(servers.Sharing(m), storetest.GoRedisDials())
}
