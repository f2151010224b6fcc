package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// errThroughProxy means that renewals go to "etcd grpc-proxy", which renews leases on its own schedule. Its reply to a
// renewal contains the result of an earlier or later renewal, so the reply does not prove how long the lease lives. The
// proxy also continues to renew the lease of a frozen client. Through a proxy, nothing is renewed: as after the end of
// their leases, keys are bound to new leases instead.
var errThroughProxy = fmt.Errorf("%w: etcd grpc-proxy answers renewals by itself", backend.ErrLost)

// directLeases is a LeaseClient that opens renewal streams to servers only. A stream to a proxy fails with
// errThroughProxy.
type directLeases struct {
	pb.LeaseClient
	proxied *atomic.Bool // set by the first stream to a proxy, and never reset
}

// LeaseKeepAlive opens a stream, and renews a lease that does not exist. A server replies with a TTL of 0. A proxy
// replies with the remaining time that its server reports, which is -1.
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
	_ = s.Send(&pb.LeaseKeepAliveRequest{ID: newLeaseID()}) // after an error, Recv returns the reason
	resp, err := s.Recv()
	if err == nil && resp.TTL < 0 {
		c.proxied.Store(true)
		err = errThroughProxy
	}
	return s, err
}

// keepBusy reads from a proxy until ctx ends, so that gRPC does not ping the proxy. Before 3.5, a proxy closes a
// connection whose client pings it more often than every five minutes.
func (b *Backend) keepBusy(ctx context.Context) {
	for kit.Sleep(ctx, pingAfter/2) == nil {
		_, _ = b.kv.Get(ctx, b.options.prefix("any"), clientv3.WithSerializable())
	}
}

// detectProxy detects whether requests go through a proxy, and sets b.proxied if they do.
func (b *Backend) detectProxy(ctx context.Context) error {
	_, err := b.repeat(ctx, func(ctx context.Context) error {
		return b.renewer.renew(ctx, b.attemptTime(ctx), newLeaseID())[0].err
	})
	if errors.Is(err, errThroughProxy) {
		return nil
	}
	return err
}
