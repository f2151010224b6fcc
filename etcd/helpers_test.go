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

// intercepted opens a Backend whose unary requests go through a function.
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

// onOwnClient is New for a test, which closes the Backend at its end.
func onOwnClient(t testing.TB, c *clientv3.Client, o *Options) *Backend {
	t.Helper()
	b, err := New(context.Background(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// ownKey finds the key of an owner, empty if there is none.
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

// watched returns when b watches the keys of leases, and all that it watched before.
func watched(t testing.TB, b *Backend, leases ...backend.Lease) {
	t.Helper()
	for _, l := range leases {
		h := l.(*kit.Life).Data.(*lockedKey)
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
		case <-time.After(3 * soon): // a stream that broke is opened again in a while
			t.Fatal("the server does not create a watch")
		}
		b.watches.stop(w)
	}
}

// stream returns the stream that carries the watches, nil for none.
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
