package redis

import (
	"errors"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// soon is the time limit, on a busy machine, for anything that should happen at once.
const soon = storetest.Soon

// attempts is how many times a measurement is tried. A busy machine is slow only now and then, but a fault makes every
// attempt slow.
const attempts = 3

const closed = storetest.NoServer

type outcome = storetest.Outcome

// Helpers that the tests of all stores share.
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

// cluster returns a cluster of three masters. With -short it skips the test.
func cluster(t testing.TB) []*servers.Server {
	t.Helper()
	storetest.Long(t, "a cluster")
	return servers.RedisCluster(t, 3)
}

// clusterNode returns a server in cluster mode that belongs to no cluster.
func clusterNode(t testing.TB) *servers.Server {
	t.Helper()
	return servers.Redis(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
}

// ready reports whether the server has confirmed the subscription.
func (in *inbox) ready() bool { return in.current().end != nil }

func held1(err error) (*backend.HeldError, bool) {
	var h *backend.HeldError
	ok := errors.As(err, &h)
	return h, ok
}
