package etcd

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/anylock/lock/backend"
)

// A silentLeases has streams for renewals on which no answer comes.
type silentLeases struct {
	pb.LeaseClient
	sent atomic.Int64
	full bool // sending hangs, as on a stream that the server does not read
}

func (c *silentLeases) LeaseKeepAlive(ctx context.Context, _ ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	return &silentStream{ctx: ctx, client: c}, nil
}

type silentStream struct {
	pb.Lease_LeaseKeepAliveClient
	ctx    context.Context
	client *silentLeases
}

func (s *silentStream) Send(*pb.LeaseKeepAliveRequest) error {
	s.client.sent.Add(1)
	if s.client.full {
		<-s.ctx.Done()
	}
	return s.ctx.Err()
}

func (s *silentStream) Recv() (*pb.LeaseKeepAliveResponse, error) {
	<-s.ctx.Done()
	time.Sleep(time.Millisecond) // until its goroutine runs
	return nil, s.ctx.Err()
}

// inBubble runs f with a Backend that can only renew, and gets no answer.
func inBubble(t *testing.T, f func(t *testing.T, b *Backend, c *silentLeases)) {
	synctest.Test(t, func(t *testing.T) {
		o, err := (*Options)(nil).validate()
		if err != nil {
			t.Fatal(err)
		}
		c := &silentLeases{}
		b := &Backend{options: o, guarantees: guarantees(o.MinTTL)}
		b.leases = backend.NewLeases(requests{b}, o.Timeout)
		b.pool = newPool(b)
		b.renewer = newRenewer(c, t.Context(), &b.calls)
		f(t, b, c)
		b.calls.Drain(time.Minute)
		b.leases.Close()
	})
}

// A stream that takes no more messages is given up as one is that does not answer.
func TestRenewalOnFullStream(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Backend, c *silentLeases) {
		c.full = true
		const patience = time.Second
		begun := time.Now()
		for _, got := range b.renewer.renew(t.Context(), patience, 1, 2) {
			if !errors.Is(got.err, errNoAnswer) {
				t.Error(got)
			}
		}
		if took := time.Since(begun); took != patience {
			t.Errorf("took %v", took)
		}
	})
}
