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

// remove deletes the contender's key, and reports whether it was there.
func (b *Backend) remove(ctx context.Context, c contender) (bool, error) {
	resp, err := b.kv.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(c.key), "=", c.rev)).
		Then(clientv3.OpDelete(c.key)).
		Commit()
	return err == nil && resp.Succeeded, err
}
