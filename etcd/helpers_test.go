package etcd

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/anylock/lock/internal/storetest"
)

// soon bounds what must happen at once on a machine that may be busy.
const soon = storetest.Soon

// What all stores' tests do.
var (
	opened       = storetest.Opened[*Backend]
	openURL      = storetest.OpenURL[*Backend]
	req          = storetest.Try
	waiting      = storetest.Wait
	acquire      = storetest.Acquire
	release      = storetest.Release
	until        = storetest.Until
	startAcquire = storetest.Start
	queueUp      = storetest.QueueUp
	granted      = storetest.Granted
)

// raw is a plain client, to look behind the backend.
func raw(t testing.TB, addrs ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop(), DialTimeout: soon})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
