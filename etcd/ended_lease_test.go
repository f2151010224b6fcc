package etcd

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/anylock/lock/internal/storetest"
)

// A stale read of an old server, from before the key was created, does not end a lock.
func TestStaleReadEndsNoLock(t *testing.T) {
	t.Parallel()
	s := shared(t)
	reads := &oldReads{}
	b := intercepted(t, s.Addr, s.options(), reads.unary)
	l := acquire(t, b, req("k", time.Minute))
	reads.at.Store(int64(l.Token()) - 1)
	storetest.Until(t, soon, "the guard has read the key", func() bool { return reads.served.Load() > 0 })
	select {
	case <-l.Lost():
		t.Error("a live lock was lost")
	case <-time.After(300 * time.Millisecond):
	}
	release(t, l)
}

// A renewal of a place was answered too late, so that the client has given its lease up, and the revocation fails. The
// place moves to another lease, and the waiter is granted the key when its turn comes.
func TestPlaceLeavesEndedLease(t *testing.T) {
	storetest.Long(t, "waits until a lease expires")
	t.Parallel()
	s := shared(t)
	var refuse atomic.Bool
	o := s.options()
	o.Timeout = time.Second
	b := intercepted(t, s.Addr, o, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if refuse.Load() && strings.HasSuffix(method, "LeaseRevoke") {
			return status.Error(codes.Unavailable, "no leader")
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	holder := acquire(t, opened(t, s.URL()), req("k", time.Minute))
	a := newAttempt(b, waiting("k", 3*time.Second))
	for range 3 {
		if _, _ = a.tryInQueue(t.Context()); a.contender.created != 0 {
			break
		}
	}
	refuse.Store(true)
	created, ended := a.contender.created, a.lease
	b.pool.mu.Lock()
	a.lease.renewed = time.Now().Add(-a.lease.ttl)
	b.pool.mu.Unlock()
	_ = a.renewPlace(t.Context())
	if a.contender.created != created || a.lease == ended {
		t.Errorf("created %d, then %d; the same lease: %v", created, a.contender.created, a.lease == ended)
	}
	time.Sleep(o.Timeout + time.Second) // sleeps: the revocation must have failed
	refuse.Store(false)
	release(t, holder)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	a.place = position{}
	for ctx.Err() == nil {
		if l, err := a.tryInQueue(ctx); err == nil {
			release(t, l)
			return
		}
		time.Sleep(100 * time.Millisecond) // sleeps: between requests
	}
	t.Errorf("the key is free, and the waiter has not been granted it")
}
