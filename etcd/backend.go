package etcd

import (
	"context"
	"errors"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A Backend keeps locks in etcd. It implements [backend.Backend] and [backend.BatchRenewer].
type Backend struct {
	client      *clientv3.Client
	kv          clientv3.KV
	leaseClient pb.LeaseClient
	options     Options
	names       *names
	guarantees  backend.Guarantees

	leases   *kit.Leases
	pool     *pool
	renewer  *renewer
	watches  *watches
	guard    *guard
	proxied  atomic.Bool  // requests go through "etcd grpc-proxy"
	lastBusy atomic.Int64 // when a waiting Acquire last found its key busy, in Unix nanoseconds

	owned bool // this Backend has opened the client, and closes it
}

var (
	_ backend.Backend      = (*Backend)(nil)
	_ backend.BatchRenewer = (*Backend)(nil)
	_ backend.Resumer      = (*Backend)(nil)
)

func newBackend(client *clientv3.Client, o Options) *Backend {
	b := &Backend{
		client: client,
		// Use the client's connection, not its fields: the fields may be wrapped, and then keys and watches would differ.
		kv:          clientv3.NewKV(client),
		leaseClient: pb.NewLeaseClient(client.ActiveConnection()), // sends a request once, unlike RetryLeaseClient
		options:     o,
		names:       newNames(),
		guarantees:  guarantees(usualMinTTL),
	}
	b.leases = kit.NewLeases(requests{b}, o.Timeout)
	b.pool = newPool(b)
	b.renewer = newRenewer(directLeases{b.leaseClient, &b.proxied}, b.leases)
	b.watches = newWatches(b, pb.NewWatchClient(client.ActiveConnection()))
	b.guard = newGuard(b)
	return b
}

// Inspect implements [backend.Backend]. A contender counts as a holder as soon as the key is free for it: either one
// exclusive contender, or all shared contenders ahead of the first exclusive one. The TTL of each holder's lease takes
// a separate request.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	return kit.Call(ctx, b.leases, backend.ValidateKey(key), func(ctx context.Context) (backend.Holder, error) {
		return b.inspect(ctx, key)
	})
}

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees { return b.guarantees }

// Close implements [backend.Backend]. It revokes pooled etcd leases, which no lock uses. A client given to New stays
// open.
func (b *Backend) Close() (err error) {
	b.pool.close()
	if !b.leases.Close() {
		return nil
	}
	if b.owned {
		if err = b.client.Close(); errors.Is(err, context.Canceled) { // clientv3 reports its own cancellation
			err = nil
		}
	}
	b.leases.Drain()
	return err
}
