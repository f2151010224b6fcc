package redis

import (
	"errors"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// soon bounds what must happen at once on a machine that may be busy.
const soon = storetest.Soon

// attempts is how often something is measured at most: a busy machine is slow now and then, what takes too long for a
// reason does so every time.
const attempts = 3

const closed = storetest.NoServer

type outcome = storetest.Outcome

// What all stores' tests do.
var (
	opened       = storetest.Opened[*Backend]
	req          = storetest.Try
	waiting      = storetest.Wait
	acquire      = storetest.Acquire
	release      = storetest.Release
	until        = storetest.Until
	startAcquire = storetest.Start
	queueUp      = storetest.QueueUp
	granted      = storetest.Granted
)

// cluster is three masters, which only the complete run starts.
func cluster(t testing.TB) []*servers.Server {
	t.Helper()
	storetest.Long(t, "a cluster")
	return servers.RedisCluster(t, 3)
}

// clusterNode is a server of a cluster that was never made.
func clusterNode(t testing.TB) *servers.Server {
	t.Helper()
	return servers.Redis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
}

func held1(err error) (*backend.HeldError, bool) {
	var h *backend.HeldError
	ok := errors.As(err, &h)
	return h, ok
}
