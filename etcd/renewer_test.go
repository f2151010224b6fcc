package etcd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/anylock/lock/backend/kit"
)

// A silentLeases opens streams for renewals that receive no replies.
type silentLeases struct {
	pb.LeaseClient
	sent atomic.Int64
	full bool // sending hangs, as on a stream that the server does not read
}

func (c *silentLeases) LeaseKeepAlive(
	ctx context.Context, _ ...grpc.CallOption,
) (pb.Lease_LeaseKeepAliveClient, error) {
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
	time.Sleep(time.Millisecond) // sleeps: in fake time
	return nil, s.ctx.Err()
}

// inBubble runs f in fake time, with a Backend that can only renew and gets no replies.
func inBubble(t *testing.T, f func(t *testing.T, b *Backend, c *silentLeases)) {
	synctest.Test(t, func(t *testing.T) {
		o, err := (*Options)(nil).validate()
		if err != nil {
			t.Fatal(err)
		}
		c := &silentLeases{}
		b := &Backend{options: o, guarantees: guarantees(usualMinTTL)}
		b.leases = kit.NewLeases(requests{b}, o.Timeout)
		b.pool = newPool(b)
		b.renewer = newRenewer(c, b.leases)
		f(t, b, c)
		b.leases.Close()
	})
}

// A stream that accepts no more messages is abandoned after the same time as a stream without replies.
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

// A slowLeases answers each renewal after a delay that depends on the lease.
type slowLeases struct {
	pb.LeaseClient
	after func(id int64) time.Duration
}

func (c slowLeases) LeaseKeepAlive(ctx context.Context, _ ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	return &slowStream{ctx: ctx, after: c.after, answers: make(chan int64, 100)}, nil
}

type slowStream struct {
	pb.Lease_LeaseKeepAliveClient
	ctx     context.Context
	after   func(id int64) time.Duration
	answers chan int64
}

func (s *slowStream) Send(r *pb.LeaseKeepAliveRequest) error {
	time.AfterFunc(s.after(r.ID), func() { s.answers <- r.ID })
	return s.ctx.Err()
}

func (s *slowStream) Recv() (*pb.LeaseKeepAliveResponse, error) {
	select {
	case id := <-s.answers:
		return &pb.LeaseKeepAliveResponse{ID: id, TTL: 60}, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// If renewals must wait for the replies to earlier ones, their patience begins when they are sent. Otherwise, if
// replies take more than half the patience, concurrent callers would cancel one stream after the other, each time with
// all renewals but the first unanswered.
func TestPatienceBeginsWithTheExchange(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Backend, _ *silentLeases) {
		b.renewer.client = slowLeases{after: func(int64) time.Duration { return 150 * time.Millisecond }}
		var calls sync.WaitGroup
		for id := range int64(10) {
			calls.Go(func() {
				if err := b.renewer.renew(t.Context(), 250*time.Millisecond, id)[0].err; err != nil {
					t.Errorf("renewal %d: %v", id, err)
				}
			})
			synctest.Wait() // the first is sent alone
		}
		calls.Wait()
	})
}

// A caller whose renewals are answered returns at once. It does not wait for the replies to others, and does not cancel
// their stream.
func TestAnswersAreNotHeldBack(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Backend, _ *silentLeases) {
		b.renewer.client = slowLeases{after: func(id int64) time.Duration { return time.Duration(id) * 100 * time.Millisecond }}
		var calls sync.WaitGroup
		renew := func(patience, most time.Duration, id int64) {
			calls.Go(func() {
				begun := time.Now()
				if err := b.renewer.renew(t.Context(), patience, id)[0].err; err != nil {
					t.Errorf("renewal %d: %v", id, err)
				}
				if took := time.Since(begun); took > most {
					t.Errorf("renewal %d took %v", id, took)
				}
			})
		}
		renew(time.Second, time.Second, 1)
		synctest.Wait()
		renew(5*time.Second, 4*time.Second, 30) // these two are sent together
		renew(time.Second, time.Second, 2)
		calls.Wait()
	})
}

// A stream that hangs is abandoned even if every caller's context ends before the caller's patience.
func TestShortCallsGiveUpAStreamTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Backend, c *silentLeases) {
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			b.renewer.renew(ctx, 500*time.Millisecond, 1)
			cancel()
		}
		if n := c.sent.Load(); n < 3 {
			t.Errorf("%d streams in a second", n)
		}
		b.renewer.renew(t.Context(), time.Second, 1) // ends the exchange in progress
	})
}
