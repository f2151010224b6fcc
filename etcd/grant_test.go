package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/anylock/lock/backend"
)

// A lateLeases loses the first request for a grant.
type lateLeases struct {
	pb.LeaseClient
	mu  sync.Mutex
	ids []int64
}

func (l *lateLeases) LeaseGrant(
	ctx context.Context, r *pb.LeaseGrantRequest, opts ...grpc.CallOption,
) (*pb.LeaseGrantResponse, error) {
	l.mu.Lock()
	l.ids = append(l.ids, r.ID)
	first := len(l.ids) == 1
	l.mu.Unlock()
	if first {
		return nil, status.Error(codes.Unavailable, "no answer")
	}
	return l.LeaseClient.LeaseGrant(ctx, r, opts...)
}

// A repeated grant requests another lease id. An unanswered grant may be executed after the lease of the repeated grant
// was revoked. With the same id, a delayed transaction could then bind a key that nobody would delete.
func TestLateGrantMakesAnotherLease(t *testing.T) {
	t.Parallel()
	b, _ := wired(t, shared(t))
	late := &lateLeases{LeaseClient: b.leaseClient}
	b.leaseClient = late
	l, err := b.pool.grant(t.Context(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	late.mu.Lock()
	ids := late.ids
	late.mu.Unlock()
	last := len(ids) - 1 // the second, or a later one if the machine stood still
	if last < 1 || slices.Contains(ids[:last], ids[last]) || l.id != ids[last] {
		t.Errorf("asked for leases %v, got %d", ids, l.id)
	}
	b.pool.revokeLater(l)
}

// If the server reports that a lease does not exist, the renewal is not repeated, because that would only delay a
// waiter that must queue again.
func TestRenewalOfGoneLeaseIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := opened(t, s.URL())
	l, err := b.pool.grant(t.Context(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.revoke(t.Context(), l.id); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), b.options.Timeout*4/5)
	defer cancel()
	if err := b.pool.refresh(ctx, l); !errors.Is(err, backend.ErrLost) || ctx.Err() != nil {
		t.Errorf("renewal of a revoked lease: %v, want ErrLost at once", err)
	}
}

// deadLeases does not answer revocations.
type deadLeases struct {
	pb.LeaseClient
	requests atomic.Int64
}

func (d *deadLeases) LeaseRevoke(
	context.Context, *pb.LeaseRevokeRequest, ...grpc.CallOption,
) (*pb.LeaseRevokeResponse, error) {
	d.requests.Add(1)
	return nil, status.Error(codes.Unavailable, "no answer")
}

// inUse reports whether revocations are requested within 10 s.
func (d *deadLeases) inUse() bool {
	before := d.requests.Load()
	time.Sleep(10 * time.Second) // sleeps: in fake time
	return d.requests.Load() > before
}

// While the servers do not respond, the leases of failed attempts are revoked again and again, until they have expired.
func TestAbandonedLeasesAreGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Backend, _ *silentLeases) {
		dead := &deadLeases{}
		b.leaseClient = dead
		const ttl = time.Minute
		for range 10 {
			b.revokeInBackground(ttl, &lease{id: newLeaseID(), lockTTL: ttl, ttl: ttl + extraTTL})
			time.Sleep(rand.N(time.Second))
		}
		time.Sleep(ttl - 15*time.Second)
		if !dead.inUse() {
			t.Error("nothing is being ended any more")
		}
		time.Sleep(ttl)
		if dead.inUse() {
			t.Error("some are still being ended")
		}
	})
}

// While the servers do not respond, dropped leases are soon left to expire. Otherwise the backlog would grow.
func TestDroppedLeasesAreGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Backend, _ *silentLeases) {
		dead := &deadLeases{}
		b.leaseClient = dead
		for range 100 {
			b.pool.revokeLater(&lease{id: newLeaseID(), ttl: time.Hour, renewed: time.Now()})
			time.Sleep(b.options.Timeout / 100)
		}
		time.Sleep(3 * b.options.Timeout)
		if dead.inUse() {
			t.Error("some are still being revoked")
		}
	})
}

// A termedLeases grants leases. Its replies contain terms, in this order.
type termedLeases struct {
	pb.LeaseClient
	terms []uint64
}

func (c *termedLeases) LeaseGrant(
	_ context.Context, r *pb.LeaseGrantRequest, _ ...grpc.CallOption,
) (*pb.LeaseGrantResponse, error) {
	term := c.terms[0]
	c.terms = c.terms[1:]
	return &pb.LeaseGrantResponse{Header: &pb.ResponseHeader{RaftTerm: term}, ID: r.ID, TTL: r.TTL}, nil
}

// If the reply to a grant is the first with a new leader's term, the previous leader may have granted the lease. So no
// lock relies on renewals of that lease.
func TestGrantThatTellsOfANewLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Backend, c *silentLeases) {
		b.leaseClient = &termedLeases{terms: []uint64{5, 6, 6, 7}}
		leader := &lateLease{silentLeases: c, term: 5}
		b.renewer.client = leader
		for i, want := range []struct {
			term  uint64 // of the leader that renews
			stale bool
		}{
			{5, false}, // the client's first grant
			{6, true},
			{7, true},  // certainly granted by the leader of term 6
			{7, false}, // a renewal has already reported term 7
		} {
			l, err := b.pool.request(t.Context(), 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			leader.term = want.term
			if err := b.pool.renew(t.Context(), soon, l)[0]; err != nil {
				t.Fatal(err)
			}
			if stale := b.pool.state(l).stale; stale != want.stale {
				t.Errorf("lease %d, renewed in term %d: stale %v, want %v", i, want.term, stale, want.stale)
			}
		}
	})
}

// If one reply to a batch of renewals is the first with a new leader's term, that leader may have made any of them.
func TestRenewalsThatTellOfANewLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Backend, c *silentLeases) {
		b.leaseClient = &termedLeases{terms: []uint64{5, 5}}
		var leases []*lease
		for range 2 {
			l, err := b.pool.request(t.Context(), 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
		}
		b.renewer.client = &lateLease{silentLeases: c, term: 5, newer: leases[1].id}
		time.Sleep(time.Second) // sleeps: in fake time; a renewal later than the grant
		for i, err := range b.pool.renew(t.Context(), soon, leases...) {
			if err != nil || !b.pool.state(leases[i]).stale {
				t.Errorf("lease %d: stale %v, want true (%v)", i, b.pool.state(leases[i]).stale, err)
			}
		}
	})
}
