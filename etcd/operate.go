package etcd

import (
	"context"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
)

// List implements [backend.Lister]. It reads the names of all contenders.
func (b *Backend) List(ctx context.Context, prefix string) (keys []string, err error) {
	err = b.leases.Call(ctx, nil, func(ctx context.Context) (err error) {
		keys, err = b.list(ctx, prefix)
		return err
	})
	return keys, err
}

func (b *Backend) list(ctx context.Context, prefix string) (keys []string, err error) {
	const page = 1000
	all := b.naming.namespace + "/" + nameMark
	from := all + encoding.Encode(prefix)
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
	return b.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		return b.breakLease(ctx, key, owner)
	})
}

func (b *Backend) breakLease(ctx context.Context, key, owner string) error {
	var tried bool
	var broken []*mvccpb.KeyValue // with the lease that the key had in the end: one that it has left may be another lock's
	unanswered, err := b.repeat(ctx, func(ctx context.Context) error {
		first, err := b.kv.Get(ctx, b.naming.prefix(key), clientv3.WithFirstCreate()...)
		if err != nil || len(first.Kvs) == 0 || string(first.Kvs[0].Value) != owner {
			return err
		}
		tried = true
		c := contender{string(first.Kvs[0].Key), first.Kvs[0].CreateRevision}
		resp, err := b.kv.Txn(ctx).If(c.lives()).Then(clientv3.OpDelete(c.key, clientv3.WithPrevKV())).Commit()
		if err == nil && resp.Succeeded {
			broken = resp.Responses[0].GetResponseDeleteRange().PrevKvs
		}
		return err
	})
	switch {
	case len(broken) > 0:
		return b.revoke(ctx, broken[0].Lease)
	case err == nil && !(tried && unanswered): // a removal without an answer may have been done
		return backend.ErrLost
	}
	return err
}
