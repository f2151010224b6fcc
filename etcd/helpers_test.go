package etcd

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/storetest"
)

// soon is the time limit for events that must happen at once, on a machine that may be busy.
const soon = storetest.Soon

// Helpers that the tests of all stores share.
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

// raw returns a plain client, which inspects the server independently of the Backend.
func raw(t testing.TB, addrs ...string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop(), DialTimeout: soon})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// intercepted returns a Backend whose unary requests pass through an interceptor. The Backend has made no request yet.
func intercepted(t testing.TB, addr string, o *Options, through grpc.UnaryClientInterceptor) *Backend {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop(), DialTimeout: soon,
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(through)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	b, err := onClient(c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// onOwnClient calls New, and closes the Backend at the end of the test.
func onOwnClient(t testing.TB, c *clientv3.Client, o *Options) *Backend {
	t.Helper()
	b, err := New(context.Background(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// ownKey returns the key of an owner, or "-" if there is none.
func ownKey(t testing.TB, c *clientv3.Client, owner string) string {
	t.Helper()
	resp, err := c.Get(context.Background(), "", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range resp.Kvs {
		if string(kv.Value) == owner {
			return string(kv.Key)
		}
	}
	return "-"
}

// watched returns when the server has created the watches on the keys of leases, and all earlier watches of b.
func watched(t testing.TB, b *Backend, leases ...backend.Lease) {
	t.Helper()
	for _, l := range leases {
		h := l.(*kit.Life).Data.(*boundKey)
		until(t, soon, "the guard watches the key", func() bool {
			b.guard.mu.Lock()
			defer b.guard.mu.Unlock()
			return h.guarded.watch != nil
		})
	}
	// A server creates the watches of a stream in order. The first round returns when there is a stream.
	for range 2 {
		created := make(chan struct{})
		var once sync.Once
		begun := func(int64) { once.Do(func() { close(created) }) }
		w := b.watches.add(&watch{contender: contender{"watched", 1}, created: begun})
		select {
		case <-created:
		case <-time.After(3 * soon): // it takes a while to replace a broken stream
			t.Fatal("the server does not create a watch")
		}
		b.watches.stop(w)
	}
}

// stream returns the stream that carries the watches, or nil if there is none.
func (ws *watches) stream() *watchStream {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.current
}

func get(t testing.TB, c *clientv3.Client, key string) kv {
	t.Helper()
	found := find(t, c, key)
	if found == nil {
		t.Fatalf("no key %s", strings.TrimPrefix(key, defaultNamespace))
	}
	return *found
}

type kv struct{ CreateRevision, Lease int64 }

func find(t testing.TB, c *clientv3.Client, key string) *kv {
	t.Helper()
	resp, err := c.Get(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return nil
	}
	return &kv{resp.Kvs[0].CreateRevision, resp.Kvs[0].Lease}
}
