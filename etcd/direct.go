package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The requests that every lock takes, this one and remove, are made of the protocol's own messages, without the client's operations in
// between, which cost more than they do for us. They pass the client's interceptors as all others do.

// takeIfFree writes key, bound to a lease, if there is none that begins with prefix, and reads the oldest of those otherwise.
func (b *Backend) takeIfFree(ctx context.Context, prefix, key, owner string, lease int64) (*clientv3.TxnResponse, error) {
	from := []byte(prefix)
	to := []byte(clientv3.GetPrefixRangeEnd(prefix))
	resp, err := b.direct.Txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Key: from, RangeEnd: to,
			Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL, TargetUnion: &pb.Compare_CreateRevision{},
		}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{
			RequestPut: &pb.PutRequest{Key: []byte(key), Value: []byte(owner), Lease: lease},
		}}},
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{
			RequestRange: &pb.RangeRequest{
				Key: from, RangeEnd: to, Limit: 1,
				SortOrder: pb.RangeRequest_ASCEND, SortTarget: pb.RangeRequest_CREATE,
			},
		}}},
	})
	return (*clientv3.TxnResponse)(resp), clientv3.ContextError(ctx, err)
}
