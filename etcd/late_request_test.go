package etcd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/anylock/lock/backend"
)

// A lateLink keeps back one request that writes a contender's key, and reports that it got no reply.
type lateLink struct {
	mu    sync.Mutex
	armed bool
	kept  *pb.TxnRequest
}

func (l *lateLink) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	if txn, ok := req.(*pb.TxnRequest); ok && writes(txn) && l.keep(txn) {
		return status.Error(codes.Unavailable, "no reply")
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// writes reports whether txn writes a contender's key if no rival has one.
func writes(txn *pb.TxnRequest) bool {
	return len(txn.Success) > 0 && txn.Success[0].GetRequestPut() != nil
}

func (l *lateLink) keep(txn *pb.TxnRequest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.armed {
		return false
	}
	l.armed, l.kept = false, txn
	return true
}

func (l *lateLink) arm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed, l.kept = true, nil
}

// arrives waits until the lease of the request that was kept back is revoked, and sends the request. It must change
// nothing.
func (l *lateLink) arrives(t *testing.T, s site, c *clientv3.Client) {
	t.Helper()
	l.mu.Lock()
	txn := l.kept
	l.mu.Unlock()
	if txn == nil {
		t.Fatal("no request was kept back: the test proves nothing")
	}
	lease := clientv3.LeaseID(txn.Success[0].GetRequestPut().Lease)
	until(t, soon, "the lease of the request is revoked", func() bool { return isGone(t, c, lease) })
	_, _ = pb.NewKVClient(c.ActiveConnection()).Txn(t.Context(), txn) // fails, because its lease does not exist
	if n := s.countKeys(t, c); n != 0 {
		t.Errorf("%d keys after a request that arrived late", n)
	}
}

// If a request for a key got no reply, and a repetition was granted the key, the first may arrive after the release. It
// then leaves no key, because its lease is revoked, also if the lock had changed to another lease.
func TestLateRequestAfterRelease(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	link := &lateLink{}
	b := intercepted(t, s.Addr, s.options(), link.unary)
	const ttl = 10 * time.Second
	for _, changes := range []bool{false, true} {
		warm(t, b, ttl)
		link.arm()
		l := acquire(t, b, req("k", ttl))
		var next backend.Lease
		if changes {
			if err := l.Renew(t.Context(), 2*ttl); err != nil {
				t.Fatal(err)
			}
			next = acquire(t, b, req("next", ttl)) // must not use the lease to which the late request binds the key
		}
		release(t, l)
		if next != nil {
			release(t, next)
		}
		link.arrives(t, s, c)
	}
}

// A waiter with a TTL longer than that of a place uses one lease for its first request, another one in the queue, and a
// third one for the lock. If the first request got no reply, the first lease is revoked when the lock is granted, and
// both when the wait ends.
func TestLateRequestOfWaiter(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	link := &lateLink{}
	b, other := intercepted(t, s.Addr, s.options(), link.unary), opened(t, s.URL())
	for _, cancelled := range []bool{false, true} {
		holder := acquire(t, other, req("k", time.Minute))
		ctx, cancel := context.WithCancel(t.Context())
		link.arm()
		done := startAcquire(ctx, b, waiting("k", 2*placeTTL))
		until(t, soon, "the waiter is queued", func() bool { return s.countKeys(t, c) == 2 })
		if cancelled {
			cancel()
			if o := <-done; !errors.Is(o.Err, context.Canceled) {
				t.Errorf("a cancelled wait: %v", o.Err)
			}
			until(t, soon, "the place is gone", func() bool { return s.countKeys(t, c) == 1 })
			release(t, holder)
		} else {
			release(t, holder)
			release(t, granted(t, done, soon).Lease)
		}
		cancel()
		link.arrives(t, s, c)
	}
}
