package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A contender is a key in the queue, the holder's included. Names are used again, so that it is the revision at which the key was
// created that tells one contender from an earlier or later one: nothing is deleted, watched or looked for by the key alone.
type contender struct {
	key string
	rev int64
}

// isThere reports whether the contender is what a request for its key has found.
func (c contender) isThere(found []*mvccpb.KeyValue) bool {
	return len(found) > 0 && found[0].CreateRevision == c.rev
}

func (c contender) lives() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(c.key), "=", c.rev)
}

// remove deletes the contender's key, and reports whether it was there.
func (b *Backend) remove(ctx context.Context, c contender) (bool, error) {
	resp, err := b.kv.Txn(ctx).
		If(c.lives()).
		Then(clientv3.OpDelete(c.key)).
		Commit()
	return err == nil && resp.Succeeded, err
}

// areThere reports which of list existed at a revision, 0 for the present, and which that was.
func (b *Backend) areThere(ctx context.Context, at int64, list ...contender) (there []bool, revision int64, err error) {
	gets := make([]clientv3.Op, len(list))
	for i, c := range list {
		gets[i] = clientv3.OpGet(c.key, clientv3.WithKeysOnly())
	}
	resp, err := b.readAt(ctx, at, gets...)
	if err != nil {
		return nil, 0, err
	}
	for i, r := range resp.Responses {
		there = append(there, list[i].isThere(r.GetResponseRange().Kvs))
	}
	return there, resp.Header.Revision, nil
}
