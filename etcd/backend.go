package etcd

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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
	naming      naming
	names       *names
	guarantees  backend.Guarantees

	leases   *kit.Leases
	pool     *pool
	renewer  *renewer
	watches  *watches
	guard    *guard
	proxied  atomic.Bool  // requests go through "etcd grpc-proxy"
	lastBusy atomic.Int64 // when a key was last busy for an Acquire that waits, in Unix nanoseconds

	owned io.Closer // the client, if this Backend has opened it
}

var (
	_ backend.Backend      = (*Backend)(nil)
	_ backend.BatchRenewer = (*Backend)(nil)
)

func newBackend(client *clientv3.Client, o Options) *Backend {
	b := &Backend{
		client: client,
		// The connection counts, not the client's fields: those may be wrapped, and then keys and watches would differ.
		kv:          clientv3.NewKV(client),
		leaseClient: pb.NewLeaseClient(client.ActiveConnection()), // sends a request once, unlike RetryLeaseClient
		options:     o,
		naming:      naming{o.Namespace},
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

// Inspect implements [backend.Backend]. The holder is the first in the queue, from when the key became free for it.
func (b *Backend) Inspect(ctx context.Context, key string) (h backend.Holder, err error) {
	err = b.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) (err error) {
		h, err = b.inspect(ctx, key)
		return err
	})
	return h, err
}

func (b *Backend) inspect(ctx context.Context, key string) (backend.Holder, error) {
	var first *clientv3.GetResponse
	_, err := b.repeat(ctx, func(ctx context.Context) (err error) {
		first, err = b.kv.Get(ctx, b.naming.prefix(key), clientv3.WithFirstCreate()...)
		return err
	})
	if err != nil || len(first.Kvs) == 0 {
		return backend.Holder{}, err
	}
	h := holder(first.Kvs[0])
	h.Waiters = int(first.Count) - 1
	id := first.Kvs[0].Lease
	_, err = b.repeat(ctx, func(ctx context.Context) error {
		resp, err := b.leaseClient.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: id})
		if err == nil && resp.TTL > 0 {
			h.TTL = time.Duration(resp.TTL+1) * time.Second // the server rounds down
		}
		return err
	})
	if code(err) == code(rpctypes.ErrPermissionDenied) { // the TTL is optional
		err = nil
	}
	return h, err
}

// holder returns the owner of the key that was created first.
func holder(first *mvccpb.KeyValue) backend.Holder {
	return backend.Holder{Owner: string(first.Value), Token: uint64(first.CreateRevision)}
}

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees { return b.guarantees }

// Close implements [backend.Backend]. It revokes etcd leases that no lock uses. A client given to New stays open.
func (b *Backend) Close() (err error) {
	b.pool.close()
	if !b.leases.Close() {
		return nil
	}
	b.watches.close()
	if b.owned != nil {
		err = b.owned.Close()
	}
	b.leases.Drain()
	return err
}
