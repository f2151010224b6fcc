package etcd

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/storetest"
)

// A lyingLeases confirms renewals of leases that no longer exist, as servers before 3.4.38, 3.5.23 and 3.6.5 do while
// they end a lease.
type lyingLeases struct {
	pb.LeaseClient
	lies atomic.Int64
}

func (c *lyingLeases) LeaseKeepAlive(
	ctx context.Context, opts ...grpc.CallOption,
) (pb.Lease_LeaseKeepAliveClient, error) {
	s, err := c.LeaseClient.LeaseKeepAlive(ctx, opts...)
	return &lyingStream{s, c}, err
}

type lyingStream struct {
	pb.Lease_LeaseKeepAliveClient
	client *lyingLeases
}

func (s *lyingStream) Recv() (*pb.LeaseKeepAliveResponse, error) {
	r, err := s.Lease_LeaseKeepAliveClient.Recv()
	if err == nil && r.TTL <= 0 {
		r.TTL = 3600
		s.client.lies.Add(1)
	}
	return r, err
}

// If servers confirm renewals of leases that no longer exist, the watch notifies a holder, and a waiter detects the
// loss when it reads the queue.
func TestRenewalsOfLeasesThatAreGone(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	b, other := opened(t, s.URL()), opened(t, s.URL())
	lying := &lyingLeases{LeaseClient: b.leaseClient}
	b.renewer.mu.Lock()
	b.renewer.client = lying
	b.renewer.stream.cancel() // the stream that opening has used
	b.renewer.mu.Unlock()
	r := req("k", 20*time.Second)
	l := acquire(t, b, r)
	if err := l.Renew(t.Context(), r.TTL); err != nil {
		t.Fatal(err)
	}
	own := ownKey(t, c, r.Owner)
	watched(t, b, l)
	revoke := func(own string) {
		if _, err := c.Revoke(t.Context(), clientv3.LeaseID(get(t, c, own).Lease)); err != nil {
			t.Fatal(err)
		}
	}
	main := l.(*kit.Life).Data.(*boundKey).lease
	revoke(own)
	if reply := b.renewer.renew(t.Context(), soon, main.id)[0]; reply.err != nil || lying.lies.Load() == 0 {
		t.Fatalf("the renewal of a lease that is gone: %v: the test proves nothing", reply.err)
	}
	select {
	case <-l.Lost():
	case <-time.After(soon):
		t.Error("the holder was not notified")
	}

	holder := acquire(t, other, req("q", time.Minute))
	w := waiting("q", 6*time.Second)
	done := queueUp(t, b, w, 1)
	before := get(t, c, ownKey(t, c, w.Owner))
	revoke(ownKey(t, c, w.Owner))
	until(t, 3*recheck, "the waiter has a new place", func() bool {
		kv := find(t, c, ownKey(t, c, w.Owner))
		return kv != nil && kv.CreateRevision > before.CreateRevision
	})
	release(t, holder)
	release(t, granted(t, done, soon).Lease)
}

// A renewal does not count if the lease may have expired before the reply.
func TestRenewalAnsweredTooLate(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Backend, c *silentLeases) {
		const ttl = 10 * time.Second
		l := &lease{id: 1, lockTTL: ttl, ttl: ttl + extraTTL, renewed: time.Now(), term: 7}
		b.renewer.client = &lateLease{silentLeases: c, term: l.term, after: l.ttl}
		b.leaseClient = &deadLeases{}
		if err := b.pool.renew(t.Context(), time.Hour, l)[0]; !errors.Is(err, backend.ErrLost) {
			t.Errorf("a renewal answered after %v: %v", l.ttl, err)
		}
	})
}

// A lease that has ended, because a reply came too late, is not used again when a new leader has renewed it after all:
// it is about to be revoked.
func TestRenewalOfLeaseThatHasEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Backend, c *silentLeases) {
		b.leaseClient = &termedLeases{terms: []uint64{7}}
		l, err := b.pool.request(t.Context(), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		leader := &lateLease{silentLeases: c, term: 7, after: l.ttl}
		b.renewer.client, b.leaseClient = leader, &deadLeases{}
		for range 2 {
			if err := b.pool.renew(t.Context(), time.Hour, l)[0]; !errors.Is(err, backend.ErrLost) {
				t.Errorf("a renewal by the leader of term %d, answered after %v: %v", leader.term, leader.after, err)
			}
			leader.term, leader.after = 8, 0
		}
	})
}

// A lateLease answers renewals after a delay, with the given term, or with the next term for the lease newer.
type lateLease struct {
	*silentLeases
	term  uint64
	newer int64
	after time.Duration
}

func (c *lateLease) LeaseKeepAlive(ctx context.Context, _ ...grpc.CallOption) (pb.Lease_LeaseKeepAliveClient, error) {
	return &lateStream{silentStream: &silentStream{ctx: ctx, client: c.silentLeases}, of: c, asked: make(chan int64, 1)},
		nil
}

type lateStream struct {
	*silentStream
	of    *lateLease
	asked chan int64
}

func (s *lateStream) Send(r *pb.LeaseKeepAliveRequest) error {
	s.asked <- r.ID
	return nil
}

func (s *lateStream) Recv() (*pb.LeaseKeepAliveResponse, error) {
	select {
	case id := <-s.asked:
		time.Sleep(s.of.after) // sleeps: a slow reply; in fake time
		term := s.of.term
		if id == s.of.newer {
			term++
		}
		return &pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{RaftTerm: term}, ID: id,
			TTL: int64(time.Minute / time.Second)}, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// If a waiter's key is deleted when it is about to be granted, for example by Break, the waiter queues again on a lease
// that nobody is about to revoke.
func TestLeaseOfDeletedGrantIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	someone := opened(t, s.URL())
	r := waiting("k", 2*placeTTL) // so that the key moves from the lease of its place to another
	var deleted func()
	var once sync.Once
	looked := make(chan struct{})
	b := intercepted(t, s.Addr, s.options(), func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if changes(req) {
			once.Do(deleted)
		}
		if _, ok := req.(*pb.LeaseRevokeRequest); ok {
			<-looked
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	var first atomic.Int64
	var other backend.Lease
	deleted = func() {
		own := ownKey(t, c, r.Owner)
		lease := get(t, c, own).Lease
		if _, err := c.Delete(context.Background(), own); err != nil {
			t.Error(err)
		}
		first.Store(lease) // after the delete: a key that is found from now on is the new place
		other = acquire(t, someone, req("k", time.Minute))
	}
	holder := acquire(t, someone, req("k", time.Minute))
	done := startAcquire(t.Context(), b, r)
	storetest.Queued(t, b, "k", 1)
	// The waiter writes the key again when it is free, bound to a lease for places.
	if _, err := c.Delete(t.Context(), ownKey(t, c, r.Owner)); err != nil {
		t.Fatal(err)
	}
	release(t, holder)
	until(t, soon, "the waiter queues again", func() bool { return first.Load() != 0 && ownKey(t, c, r.Owner) != "-" })
	if place := get(t, c, ownKey(t, c, r.Owner)).Lease; place == first.Load() {
		t.Errorf("the waiter's new place hangs on lease %x, which is being revoked", place)
	}
	close(looked)
	release(t, other)
	release(t, granted(t, done, 3*soon).Lease)
}

// changes reports whether a request binds keys to other leases.
func changes(req any) bool {
	txn, _ := req.(*pb.TxnRequest)
	return len(txn.GetCompare()) == 0 && len(txn.GetSuccess()) > 0 && txn.GetSuccess()[0].GetRequestTxn() != nil
}
