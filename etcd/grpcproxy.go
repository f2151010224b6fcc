package etcd

import (
	"context"
	"errors"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// errThroughProxy means that renewals go to "etcd grpc-proxy". The proxy renews a lease on a schedule of its own. It
// answers a renewal with the result of an earlier or later renewal, so an answer does not prove how long the lease
// lives. It also goes on renewing the lease of a client that is frozen. Behind a proxy, nothing is renewed: keys are
// bound to new leases instead.
var errThroughProxy = errors.New("etcd grpc-proxy answers renewals by itself")

// directLeases is a client whose streams for renewals end with errThroughProxy if they lead to a proxy.
//
// Each stream begins with the renewal of a lease that does not exist. A server answers requests in their order, this
// request with a TTL of 0. A proxy requests the lease's remaining time from its server, which is -1, and may answer
// other requests first.
type directLeases struct {
	pb.LeaseClient
	proxied *atomic.Bool // set for good by the first stream to a proxy
}

func (c directLeases) LeaseKeepAlive(ctx context.Context, opts ...grpc.CallOption) (
	pb.Lease_LeaseKeepAliveClient, error,
) {
	if c.proxied.Load() {
		return nil, errThroughProxy
	}
	s, err := c.LeaseClient.LeaseKeepAlive(ctx, opts...)
	if err != nil {
		return nil, err
	}
	d := &directStream{s, c.proxied, newLeaseID()}
	return d, d.Send(&pb.LeaseKeepAliveRequest{ID: d.missing})
}

type directStream struct {
	pb.Lease_LeaseKeepAliveClient
	proxied *atomic.Bool
	missing int64 // the lease that does not exist; 0 after its answer
}

func (s *directStream) Recv() (*pb.LeaseKeepAliveResponse, error) {
	if s.missing != 0 {
		resp, err := s.Lease_LeaseKeepAliveClient.Recv()
		if err != nil {
			return nil, err
		}
		if resp.ID != s.missing || resp.TTL < 0 {
			s.proxied.Store(true)
			return nil, errThroughProxy
		}
		s.missing = 0
	}
	return s.Lease_LeaseKeepAliveClient.Recv()
}

// findProxy finds out whether requests go through a proxy.
func (b *Backend) findProxy(ctx context.Context) error {
	_, err := b.repeat(ctx, func(ctx context.Context) error {
		err := b.renewer.renew(ctx, b.attemptTime(ctx), newLeaseID())[0].err
		if errors.Is(err, errThroughProxy) {
			return nil
		}
		return err
	})
	return err
}
