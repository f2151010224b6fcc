package etcd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// A lateLeases hides the answer to the first grant.
type lateLeases struct {
	pb.LeaseClient
	mu  sync.Mutex
	ids []int64
}

func (l *lateLeases) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest, opts ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	l.mu.Lock()
	l.ids = append(l.ids, r.ID)
	first := len(l.ids) == 1
	l.mu.Unlock()
	if first {
		return nil, status.Error(codes.Unavailable, "no answer")
	}
	return l.LeaseClient.LeaseGrant(ctx, r, opts...)
}

// A grant that went unanswered may be carried out when the lease of the repeated one has been revoked: had it the same id, a
// late transaction could bind a key to it that nobody would remove.
func TestLateGrantMakesAnotherLease(t *testing.T) {
	s := servers.Etcd(t)
	b, err := openURL(t.Context(), "etcd://"+s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	late := &lateLeases{LeaseClient: b.leaseClient}
	b.leaseClient = late
	l, err := b.pool.grant(t.Context(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	late.mu.Lock()
	ids := late.ids
	late.mu.Unlock()
	if len(ids) != 2 || ids[0] == ids[1] || l.id != ids[1] {
		t.Errorf("asked for leases %v, got %d", ids, l.id)
	}
	b.pool.drop(l)
}

// The server's word that a lease is gone is final: repeating the renewal only delays whoever has to queue again.
func TestRenewalOfGoneLeaseIsNotRepeated(t *testing.T) {
	s := servers.Etcd(t)
	b := opened(t, "etcd://"+s.Addr)
	l, err := b.pool.grant(t.Context(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.pool.revoke(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), b.options.Timeout/2)
	defer cancel()
	if _, err := b.pool.refresh(ctx, l); !errors.Is(err, backend.ErrLost) || ctx.Err() != nil {
		t.Errorf("renewal of a revoked lease: %v, want ErrLost at once", err)
	}
}
