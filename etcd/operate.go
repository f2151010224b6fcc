package etcd

import (
	"context"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
)

// List implements [backend.Lister]. It reads the names of all contenders.
func (b *Backend) List(ctx context.Context, prefix string) ([]string, error) {
	if err := b.calls.Enter(ctx, b.closing.Done(), nil); err != nil {
		return nil, err
	}
	defer b.calls.End()
	keys, err := b.list(ctx, prefix)
	if err != nil && backend.Ended(ctx) {
		err = backend.ContextError(ctx, err)
	}
	return keys, err
}

func (b *Backend) list(ctx context.Context, prefix string) (keys []string, err error) {
	const page = 1000
	all := b.naming.namespace + "/" + nameMark
	from := all + encoding.Encode(prefix)
	end := clientv3.GetPrefixRangeEnd(from)
	for {
		var resp *clientv3.GetResponse
		_, err := b.repeat(ctx, b.options.Timeout, func(ctx context.Context) (err error) {
			resp, err = b.kv.Get(ctx, from, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(page))
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, kv := range resp.Kvs {
			name, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), all), "/")
			key, ok := encoding.Decode(name)
			if ok && (len(keys) == 0 || keys[len(keys)-1] != key) { // those of one key are neighbours
				keys = append(keys, key)
			}
		}
		if !resp.More || len(resp.Kvs) == 0 {
			return keys, nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// Break implements [backend.Breaker]. It deletes the first contender's key, if that is the owner's, and revokes its lease of etcd's, which
// no other lock uses and which the holder would go on renewing until its watch tells.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	if err := b.calls.Enter(ctx, b.closing.Done(), backend.ValidateKey(key)); err != nil {
		return err
	}
	defer b.calls.End()
	err := b.breakLease(ctx, key, owner)
	if err != nil && backend.Ended(ctx) {
		err = backend.ContextError(ctx, err)
	}
	return err
}

func (b *Backend) breakLease(ctx context.Context, key, owner string) error {
	broken := false
	var lease int64
	unanswered, err := b.repeat(ctx, b.options.Timeout, func(ctx context.Context) error {
		first, err := b.kv.Get(ctx, b.naming.prefix(key), clientv3.WithFirstCreate()...)
		if err != nil || len(first.Kvs) == 0 || string(first.Kvs[0].Value) != owner {
			return err
		}
		name := string(first.Kvs[0].Key)
		resp, err := b.kv.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(name), "=", first.Kvs[0].CreateRevision)).
			Then(clientv3.OpDelete(name)).Commit()
		if err == nil && resp.Succeeded {
			broken, lease = true, first.Kvs[0].Lease
		}
		return err
	})
	if broken {
		_, err = b.repeat(ctx, b.options.Timeout, func(ctx context.Context) error {
			_, err := b.leaseClient.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: lease})
			return err
		})
		if isLeaseNotFound(err) {
			err = nil
		}
	}
	if err == nil && !broken && !unanswered { // one without an answer may have done it
		return backend.ErrLost
	}
	return err
}
