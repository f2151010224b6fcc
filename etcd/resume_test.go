package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/anylock/lock/backend"
)

func resume(t testing.TB, b *Backend, r backend.Request) backend.Lease {
	t.Helper()
	l, err := b.Resume(t.Context(), r)
	if err != nil {
		t.Fatalf("resume: %v", err)
	}
	return l
}

// A shared lease can be resumed only as shared, and an exclusive one only as exclusive. A resumed reader keeps its
// token, and keeps writers out.
func TestResumeReader(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b, other := opened(t, s.URL()), opened(t, s.URL())
	r, exclusive := asReader(req("k", readerTTL)), req("k2", readerTTL)
	beside := acquire(t, b, asReader(req("k", readerTTL)))
	l, writer := acquire(t, b, r), acquire(t, b, exclusive)
	wrong := r
	wrong.Shared = false
	if _, err := other.Resume(t.Context(), wrong); !errors.Is(err, backend.ErrLost) {
		t.Errorf("a shared lease resumed as exclusive: %v", err)
	}
	if _, err := other.Resume(t.Context(), asReader(exclusive)); !errors.Is(err, backend.ErrLost) {
		t.Errorf("an exclusive lease resumed as shared: %v", err)
	}
	resumed := resume(t, other, r)
	if resumed.Token() != l.Token() {
		t.Errorf("token %d, was %d", resumed.Token(), l.Token())
	}
	waiter := queueUp(t, b, waiting("k", readerTTL), 1)
	release(t, beside)
	waits(t, "a writer behind a resumed reader", waiter)
	release(t, resumed)
	release(t, granted(t, waiter, soon).Lease)
	release(t, writer)
}

// Two clients can use one lease. A renewal by either client moves the key to an etcd lease of that client, and a
// release by either ends the lock for both. Later locks of the clients use etcd leases that nobody revokes.
func TestResumedLeaseOfTwoClients(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	b, other := opened(t, s.URL()), opened(t, s.URL())
	r := req("k", readerTTL)
	l := acquire(t, b, r)
	resumed := resume(t, other, r)
	for i, renewal := range []struct {
		lease backend.Lease
		ttl   time.Duration
	}{
		{l, readerTTL}, {resumed, readerTTL}, {l, 2 * readerTTL}, {resumed, 3 * readerTTL}, {l, 2 * readerTTL},
		{resumed, 3 * readerTTL},
	} {
		own := ownKey(t, c, r.Owner)
		bound := get(t, c, own).Lease
		for _, x := range []backend.Lease{l, resumed} {
			if id := leaseOf(x).id; id != bound {
				until(t, soon, "the other etcd lease is revoked", func() bool {
					ttl, err := b.remaining(t.Context(), id)
					return err == nil && ttl == 0
				})
			}
		}
		if err := renewal.lease.Renew(t.Context(), renewal.ttl); err != nil {
			t.Fatalf("renewal %d: %v", i, err)
		}
		if bound := get(t, c, own).Lease; bound != leaseOf(renewal.lease).id {
			t.Fatalf("renewal %d: the key is bound to the etcd lease %x, renewed is %x", i, bound, leaseOf(renewal.lease).id)
		}
		if h := held(t, b, req("k", readerTTL)); h.Token != l.Token() {
			t.Errorf("renewal %d: the holder is %+v", i, h)
		}
	}
	release(t, l)
	var next []backend.Lease
	for i := range 4 {
		next = append(next, acquire(t, b, req(fmt.Sprint("b", i), readerTTL)))
		next = append(next, acquire(t, other, req(fmt.Sprint("o", i), 3*readerTTL)))
	}
	if err := resumed.Renew(t.Context(), readerTTL); !errors.Is(err, backend.ErrLost) {
		t.Errorf("renewal of a lease that the other client has released: %v", err)
	}
	if err := resumed.Release(t.Context()); !errors.Is(err, backend.ErrLost) {
		t.Errorf("release of a lease that the other client has released: %v", err)
	}
	release(t, acquire(t, b, req("k", readerTTL)))
	for _, n := range next {
		if err := n.Renew(t.Context(), 3*readerTTL); err != nil {
			t.Errorf("a lease of another lock: %v", err)
		}
		release(t, n)
	}
	until(t, soon, "no key is left", func() bool { return s.countKeys(t, c) == 0 })
}

// A Resume whose reply is lost recognizes its own write. If the other client moves the key meanwhile, Resume repeats
// its transaction.
func TestResumeRepeats(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, lost := range []bool{true, false} {
		b := opened(t, s.URL())
		r := req("k", readerTTL)
		l := acquire(t, b, r)
		var armed atomic.Bool
		other := intercepted(t, s.Addr, s.options(), func(ctx context.Context, method string, req, reply any,
			cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			if !binds(req) || !armed.Swap(false) {
				return invoke(ctx, method, req, reply, cc, opts...)
			}
			if !lost {
				if err := l.Renew(t.Context(), 2*readerTTL); err != nil {
					t.Error(err)
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			}
			if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
				return err
			}
			return status.Error(codes.Unavailable, "the reply is lost")
		})
		armed.Store(true)
		resumed := resume(t, other, r)
		if armed.Load() {
			t.Fatal("no transaction was met: the test proves nothing")
		}
		if err := resumed.Renew(t.Context(), readerTTL); err != nil {
			t.Error(err)
		}
		if own := get(t, raw(t, s.Addr), ownKey(t, raw(t, s.Addr), r.Owner)).Lease; own != leaseOf(resumed).id {
			t.Errorf("the key is bound to the etcd lease %x, the client renews %x", own, leaseOf(resumed).id)
		}
		release(t, resumed)
	}
}

// A Resume gives up if the other client moves the key before each of its transactions. The etcd lease to which it did
// not bind the key is then revoked.
func TestOvertakenResumeLeavesNoLease(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := opened(t, s.URL())
	r := req("k", readerTTL)
	l := acquire(t, b, r)
	var moves, unused int64
	other := intercepted(t, s.Addr, s.options(), func(ctx context.Context, method string, req, reply any,
		cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if binds(req) {
			unused = req.(*pb.TxnRequest).Success[0].GetRequestTxn().Success[0].GetRequestPut().Lease
			moves++
			if err := l.Renew(t.Context(), readerTTL*time.Duration(2+moves%2)); err != nil {
				t.Error(err)
			}
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	if _, err := other.Resume(t.Context(), r); !errors.Is(err, backend.ErrUnavailable) {
		t.Fatalf("resume, overtaken %d times: %v", moves, err)
	}
	until(t, soon, "the unused etcd lease is revoked", func() bool {
		ttl, err := b.remaining(t.Context(), unused)
		return err == nil && ttl == 0
	})
	release(t, l)
}

// If the Release of a lease that another client has resumed gets no reply, a second Release deletes the key. Otherwise
// the key would remain, because the other client renews its etcd lease.
func TestReleaseOfResumedLeaseIsRepeated(t *testing.T) {
	t.Parallel()
	s := shared(t)
	var armed atomic.Bool
	b := intercepted(t, s.Addr, s.options(), func(ctx context.Context, method string, req, reply any,
		cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if armed.Load() && deletes(req) {
			return status.Error(codes.Unavailable, "the request is lost")
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	r := req("k", readerTTL)
	l := acquire(t, b, r)
	resume(t, opened(t, s.URL()), r)
	armed.Store(true)
	if err := l.Release(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("the first release: %v", err)
	}
	armed.Store(false)
	release(t, l)
	if h, err := b.Inspect(t.Context(), "k"); err != nil || h.Owner != "" {
		t.Errorf("after the second release: %+v, %v", h, err)
	}
}

// A renewal that comes before the guard knows of a Resume without a reply is made good: the key is bound to the etcd
// lease that its client renews.
func TestRenewalBeforeGuardKnowsOfResume(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	b := opened(t, s.URL())
	r := req("k", readerTTL)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	other := intercepted(t, s.Addr, s.options(), func(ctx context.Context, method string, req, reply any,
		cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if binds(req) && err == nil {
			cancel()
			return status.Error(codes.Unavailable, "the reply is lost")
		}
		return err
	})
	l := acquire(t, b, r)
	if _, err := other.Resume(ctx, r); err == nil {
		t.Fatal("resumed without a reply")
	}
	if err := l.Renew(t.Context(), readerTTL); err != nil { // sooner than guardAfter, on a machine that is not busy
		t.Fatal(err)
	}
	until(t, soon, "the key is bound to the etcd lease that its client renews", func() bool {
		return get(t, c, ownKey(t, c, r.Owner)).Lease == leaseOf(l).id
	})
	release(t, l)
}

// binds reports whether a request binds keys to other etcd leases.
func binds(req any) bool {
	txn, _ := req.(*pb.TxnRequest)
	for _, op := range txn.GetSuccess() {
		if op.GetRequestTxn() != nil {
			return true
		}
	}
	return false
}

// A waiter whose TTL is longer than that of a place changes its etcd lease when its turn comes. The deadline of the lock
// counts from before the request for that was sent, not from its reply.
func TestDeadlineOfChangedLeaseCountsFromSending(t *testing.T) {
	t.Parallel()
	const ttl, late = 2 * placeTTL, 500 * time.Millisecond
	s := shared(t)
	var answered atomic.Int64 // when the server had carried out the request, in µs
	b := intercepted(t, s.Addr, s.options(), func(ctx context.Context, method string, req, reply any,
		cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if binds(req) {
			answered.Store(time.Now().UnixMicro())
			time.Sleep(late + backend.Margin(ttl)) // sleeps: a slow link
		}
		return err
	})
	holder := acquire(t, opened(t, s.URL()), req("k", time.Minute))
	done := queueUp(t, b, waiting("k", ttl), 1)
	answered.Store(0)
	release(t, holder)
	l := granted(t, done, 2*soon).Lease
	if answered.Load() == 0 {
		t.Fatal("the lock has not changed its lease: the test proves nothing")
	}
	if over := l.Deadline().Sub(backend.Deadline(time.UnixMicro(answered.Load()), ttl)); over > 0 {
		t.Errorf("the deadline is %v later than the TTL allows", over)
	}
	release(t, l)
}
