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
	"github.com/anylock/lock/internal/calls"
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

	leases  *kit.Leases
	pool    *pool
	renewer *renewer
	watches *watches
	guard   *guard
	calls   calls.Calls
	proxied atomic.Bool  // requests go through "etcd grpc-proxy"
	waited  atomic.Int64 // when a key was last busy for an Acquire that waits, in unix nanoseconds

	closing context.Context // ends when Close begins
	base    context.Context // of what goes on in the background; ends when Close can wait no longer
	end     context.CancelFunc
	owned   io.Closer // the client, if this Backend opened it
}

var (
	_ backend.Backend      = (*Backend)(nil)
	_ backend.BatchRenewer = (*Backend)(nil)
)

func newBackend(client *clientv3.Client, o Options) *Backend {
	b := &Backend{
		client: client,
		// Of the client's connection, not of its fields: those may be wrapped, and then keys and watches would differ.
		kv:          clientv3.NewKV(client),
		leaseClient: pb.NewLeaseClient(client.ActiveConnection()), // which sends a request once, unlike RetryLeaseClient
		options:     o,
		naming:      naming{o.Namespace},
		names:       newNames(),
		guarantees:  guarantees(usualMinTTL),
	}
	b.leases = kit.NewLeases(requests{b}, o.Timeout)
	b.closing = b.leases.Closing()
	b.base, b.end = context.WithCancel(context.Background())
	b.pool = newPool(b)
	b.renewer = newRenewer(directLeases{b.leaseClient, &b.proxied}, b.base, &b.calls)
	b.watches = newWatches(pb.NewWatchClient(client.ActiveConnection()), b.closing, &b.calls, b.naming.prefix("any"))
	b.guard = newGuard(b)
	return b
}

// Acquire implements [backend.Backend].
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	a := newAttempt(b, r)
	w := kit.Waiter{
		Try: a.try, Refused: a.lastRefusal, CleanUp: a.giveUp, Passing: passing,
		Pause: kit.Pause{Min: leastPause, Max: time.Second},
	}
	if r.Wait {
		w.Try, w.Sleep = a.queue, a.await
	}
	return b.leases.Acquire(ctx, r, w)
}

// Inspect implements [backend.Backend]. The first in the queue is told as the holder from when the key was left to it.
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
			h.TTL = time.Duration(resp.TTL+1) * time.Second // rounded down by the server
		}
		return err
	})
	if code(err) == code(rpctypes.ErrPermissionDenied) { // it is not for us to see
		err = nil
	}
	return h, err
}

// holder is whose key came first.
func holder(first *mvccpb.KeyValue) backend.Holder {
	return backend.Holder{Owner: string(first.Value), Token: uint64(first.CreateRevision)}
}

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees { return b.guarantees }

func (b *Backend) isClosing() bool { return b.leases.Closed() }

// closeGrace is how long Close waits for requests in the background, such as waiters leaving their queues.
const closeGrace = time.Second

// Close implements [backend.Backend]. Leases of etcd's that no lock uses are revoked. A client given to New stays open.
func (b *Backend) Close() (err error) {
	if !b.leases.Close() {
		return nil
	}
	b.pool.close()
	b.calls.Drain(closeGrace)
	b.calls.Seal()
	b.end()
	b.watches.close()
	if b.owned != nil {
		err = b.owned.Close()
	}
	b.calls.Drain(closeGrace)
	return err
}
