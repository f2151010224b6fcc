package etcd

import (
	"context"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
)

// A queue is the result of reading a key's contenders.
type queue struct {
	holders []*mvccpb.KeyValue // one exclusive contender, or all shared ones ahead of the first exclusive one
	waiters int
}

// readQueue reads the queue of a key in one request.
func (b *Backend) readQueue(ctx context.Context, key string) (q queue, err error) {
	prefix := b.options.prefix(key)
	resp, err := b.readAt(ctx, 0,
		exclusiveKeys(prefix).get(clientv3.SortAscend, clientv3.WithLimit(1)),
		sharedKeys(prefix).get(clientv3.SortAscend))
	if err != nil {
		return q, err
	}
	exclusive, shared := resp.Responses[0].GetResponseRange(), resp.Responses[1].GetResponseRange()
	q.holders = shared.Kvs
	if len(exclusive.Kvs) > 0 {
		behind := func(kv *mvccpb.KeyValue) bool { return kv.CreateRevision > exclusive.Kvs[0].CreateRevision }
		if n := slices.IndexFunc(shared.Kvs, behind); n >= 0 {
			q.holders = shared.Kvs[:n]
		}
		if len(q.holders) == 0 {
			q.holders = exclusive.Kvs
		}
	}
	q.waiters = int(exclusive.Count+shared.Count) - len(q.holders)
	return q, nil
}

// heldBy returns the key that owner holds, or nil if owner is not a holder.
func (q queue) heldBy(owner string) *mvccpb.KeyValue {
	for _, kv := range q.holders {
		if string(kv.Value) == owner {
			return kv
		}
	}
	return nil
}

// holder describes the holders by the first one. There must be at least one. It does not set the TTL.
func (q queue) holder() backend.Holder {
	first := q.holders[0]
	h := backend.Holder{Owner: string(first.Value), Token: uint64(first.CreateRevision), Waiters: q.waiters}
	if isShared(first.Key) {
		h.Shared = len(q.holders)
	}
	return h
}

// refusal returns the error of a request that does not get the key. first is the result of reading the first
// contender of either mode. If that contender is shared, refusal makes another request to count the holders.
func (b *Backend) refusal(ctx context.Context, key string, first *pb.RangeResponse) error {
	if len(first.Kvs) == 0 {
		return backend.ErrHeld // impossible: the key is not free
	}
	q := queue{holders: first.Kvs, waiters: int(first.Count) - 1}
	if isShared(first.Kvs[0].Key) {
		if now, err := b.readQueue(ctx, key); err == nil && len(now.holders) > 0 {
			q = now
		}
	}
	return &backend.HeldError{Holder: q.holder()}
}

// ttlsAtOnce is how many leases Inspect reads at the same time.
const ttlsAtOnce = 16

// inspect returns the holder whose lease ends last.
func (b *Backend) inspect(ctx context.Context, key string) (backend.Holder, error) {
	q, err := b.readQueue(ctx, key)
	if err != nil || len(q.holders) == 0 {
		return backend.Holder{}, err
	}
	h := q.holder()
	for some := range slices.Chunk(q.holders, ttlsAtOnce) {
		ttls, errs := make([]time.Duration, len(some)), make([]error, len(some))
		var requests sync.WaitGroup
		for i, kv := range some {
			requests.Go(func() { ttls[i], errs[i] = b.remaining(ctx, kv.Lease) })
		}
		requests.Wait()
		for i, kv := range some {
			if errs[i] != nil {
				return h, errs[i]
			}
			if ttls[i] > h.TTL {
				h.Owner, h.Token, h.TTL = string(kv.Value), uint64(kv.CreateRevision), ttls[i]
			}
		}
	}
	return h, nil
}

// remaining returns the remaining time of an etcd lease, rounded up. It returns 0 if the time is unknown or the lease
// has ended.
func (b *Backend) remaining(ctx context.Context, id int64) (ttl time.Duration, err error) {
	_, err = b.repeat(ctx, func(ctx context.Context) error {
		resp, err := b.leaseClient.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: id})
		if err == nil && resp.TTL >= 0 {
			ttl = time.Duration(resp.TTL+1) * time.Second // the server rounds down; -1 if the lease has ended
		}
		return err
	})
	if code(err) == code(rpctypes.ErrPermissionDenied) { // the TTL is optional
		err = nil
	}
	return ttl, err
}
