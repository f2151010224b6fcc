package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
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
	key := []byte(c.key)
	resp, err := b.direct.Txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Key: key, Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_CreateRevision{CreateRevision: c.rev},
		}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &pb.DeleteRangeRequest{Key: key},
		}}},
	})
	return resp.GetSucceeded(), clientv3.ContextError(ctx, err)
}
