package etcd

import (
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
)

// List implements [backend.Lister]. It reads the keys of all contenders.
func (b *Backend) List(ctx context.Context, prefix string) (keys []string, err error) {
	err = b.leases.Call(ctx, nil, func(ctx context.Context) (err error) {
		keys, err = b.list(ctx, prefix)
		return err
	})
	return keys, err
}

func (b *Backend) list(ctx context.Context, prefix string) (keys []string, err error) {
	const page = 1000
	namespace := b.options.Namespace + "/" + nameMark
	from := namespace + encoding.Encode(prefix)
	end := clientv3.GetPrefixRangeEnd(from)
	for {
		var resp *clientv3.GetResponse
		_, err := b.repeat(ctx, func(ctx context.Context) (err error) {
			resp, err = b.kv.Get(ctx, from, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(page))
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, kv := range resp.Kvs {
			name, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), namespace), "/")
			key, ok := encoding.Decode(name)
			if ok && (len(keys) == 0 || keys[len(keys)-1] != key) { // the contenders for one key are adjacent
				keys = append(keys, key)
			}
		}
		if !resp.More || len(resp.Kvs) == 0 {
			return keys, nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// Break implements [backend.Breaker]. If the owner is a holder, Break deletes the owner's key and revokes the key's
// etcd lease. No other lock uses that lease, and the holder would renew it until its watch reports the deletion.
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		return b.breakLease(ctx, key, owner)
	})
}

func (b *Backend) breakLease(ctx context.Context, key, owner string) error {
	q, err := b.readQueue(ctx, key)
	if err != nil {
		return err
	}
	if held := q.heldBy(owner); held != nil {
		unsure, err := b.breakContender(ctx, contenderOf(held))
		if unsure && errors.Is(err, backend.ErrLost) { // a request without a reply has deleted the key
			return nil
		}
		return err
	}
	return backend.ErrLost
}

// breakContender deletes a contender's key and revokes the etcd lease to which it was bound. ErrLost means that the key
// did not exist, or, if unsure, that a request without a reply may have deleted it.
func (b *Backend) breakContender(ctx context.Context, c contender) (unsure bool, err error) {
	var broken []*mvccpb.KeyValue // with the lease at its deletion; an earlier lease may now be another lock's
	unsure, err = b.repeat(ctx, func(ctx context.Context) error {
		resp, err := b.kv.Txn(ctx).If(c.exists()).Then(clientv3.OpDelete(c.key, clientv3.WithPrevKV())).Commit()
		if err == nil && resp.Succeeded {
			broken = resp.Responses[0].GetResponseDeleteRange().PrevKvs
		}
		return err
	})
	switch {
	case len(broken) > 0:
		return unsure, b.revoke(ctx, broken[0].Lease)
	case err == nil:
		return unsure, backend.ErrLost
	}
	return unsure, err
}
