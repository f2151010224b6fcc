package etcd

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

func TestResume(t *testing.T) {
	t.Parallel()
	s := private(t, shortElections...)
	result, err := conformance.ExecuteResume(t.Context(), conformance.Harness{
		Open: func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, s.URL()) },
	})
	if err != nil || result.Status != conformance.Pass {
		t.Errorf("%s %v\n%s", result.Status, err, result.Output)
	}
}

func resume(t testing.TB, b *Backend, r backend.Request) backend.Lease {
	t.Helper()
	l, err := b.Resume(t.Context(), r)
	if err != nil {
		t.Fatalf("resume: %v", err)
	}
	return l
}

// A shared lease is resumed as that, beside others.
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

// A client whose lease another one has resumed loses it, and does nothing to it.
func TestResumeTakesTheLease(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	for what, use := range map[string]func(l backend.Lease) error{
		"a renewal":                 func(l backend.Lease) error { return l.Renew(t.Context(), readerTTL) },
		"a renewal for another TTL": func(l backend.Lease) error { return l.Renew(t.Context(), 2*readerTTL) },
		"a release":                 func(l backend.Lease) error { return l.Release(t.Context()) },
	} {
		t.Run(what, func(t *testing.T) {
			b, other := opened(t, s.URL()), opened(t, s.URL())
			r := req("k", readerTTL)
			l := acquire(t, b, r)
			old := get(t, c, ownKey(t, c, r.Owner)).Lease
			resumed := resume(t, other, r)
			if what == "a renewal" {
				until(t, soon, "the etcd lease is revoked", func() bool {
					ttl, err := b.remaining(t.Context(), old)
					return err == nil && ttl == 0
				})
			}
			if err := use(l); !errors.Is(err, backend.ErrLost) {
				t.Errorf("%s of a lease that another client has resumed: %v", what, err)
			}
			// What the first client does next, it does with etcd leases that nobody revokes.
			next := acquire(t, b, req("next", readerTTL))
			if err := resumed.Renew(t.Context(), readerTTL); err != nil {
				t.Errorf("renewal of the resumed lease: %v", err)
			}
			if h := held(t, b, req("k", readerTTL)); h.Token != l.Token() {
				t.Errorf("the holder is %+v", h)
			}
			release(t, resumed)
			release(t, next)
		})
	}
}

// A Resume whose reply is lost recognises its own work. One that meets a move by the other client is repeated.
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
