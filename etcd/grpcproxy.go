package etcd

import (
	"context"
	"errors"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// errThroughProxy means that renewals go to "etcd grpc-proxy", which renews leases on its own schedule. Its reply to a
// renewal contains the result of an earlier or later renewal, so the reply does not prove how long the lease lives. The
// proxy also continues to renew the lease of a frozen client. Through a proxy, nothing is renewed: keys are bound to
// new leases instead.
var errThroughProxy = errors.New("etcd grpc-proxy answers renewals by itself")

// directLeases is a LeaseClient whose renewal streams fail with errThroughProxy if they lead to a proxy.
//
// Each stream begins with the renewal of a lease that does not exist. A server replies in order, and to this renewal
// with a TTL of 0. A proxy replies with the remaining time that its server reports, -1, and may reply to other renewals
// first.
type directLeases struct {
	pb.LeaseClient
	proxied *atomic.Bool // set by the first stream to a proxy, and never reset
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
	missing int64 // the lease that does not exist; 0 after the reply
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

// findProxy detects whether requests go through a proxy, and sets b.proxied if they do.
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
