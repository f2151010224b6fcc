package etcd

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// List implements [backend.Lister]. It reads the keys of all contenders.
func (b *Backend) List(ctx context.Context, prefix string) ([]string, error) {
	return kit.Call(ctx, b.leases, nil, func(ctx context.Context) ([]string, error) { return b.list(ctx, prefix) })
}

func (b *Backend) list(ctx context.Context, prefix string) (keys []string, err error) {
	const page = 1000
	namespace := b.options.Namespace + "/" + nameMark
	from := namespace + encoding.Encode(prefix)
	end := clientv3.WithRange(clientv3.GetPrefixRangeEnd(from))
	for {
		read, err := b.readAt(ctx, 0, clientv3.OpGet(from, end, clientv3.WithKeysOnly(), clientv3.WithLimit(page)))
		if err != nil {
			return nil, err
		}
		resp := read.Responses[0].GetResponseRange()
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
	held := q.heldBy(owner)
	if held == nil {
		return backend.ErrLost
	}
	deleted, unsure, err := b.deleteContender(ctx, contenderOf(held))
	switch {
	case deleted != nil: // bound to this lease when it was deleted; an earlier lease may now be another lock's
		return b.revoke(ctx, deleted.Lease)
	case err == nil && !unsure:
		return backend.ErrLost
	}
	return err // nil if a request without a reply has deleted the key
}
