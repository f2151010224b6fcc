package etcd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/storetest"
)

// Break reports that the owner does not hold the key, even if its first read got no reply.
func TestBreakThatLooksTwice(t *testing.T) {
	t.Parallel()
	s := shared(t)
	var silent atomic.Bool
	b := intercepted(t, s.Addr, s.options(), func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if txn, ok := req.(*pb.TxnRequest); ok && len(txn.Compare) == 0 && silent.CompareAndSwap(true, false) { // a read
			<-ctx.Done()
			return ctx.Err()
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	l := acquire(t, b, req("k", time.Minute))
	silent.Store(true)
	if err := b.Break(t.Context(), "k", "somebody"); !errors.Is(err, backend.ErrLost) || silent.Load() {
		t.Errorf("break of an owner that does not hold the key: %v, want ErrLost", err)
	}
	release(t, l)
}

// A Break whose reply is lost succeeds: its repetition finds that the key is gone.
func TestBreakWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	s := shared(t)
	var lost atomic.Bool
	breaker := intercepted(t, s.Addr, s.options(), func(ctx context.Context, method string, req, reply any,
		cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if deletes(req) && lost.CompareAndSwap(false, true) {
			return status.Error(codes.Unavailable, "the reply is lost")
		}
		return err
	})
	l := acquire(t, opened(t, s.URL()), req("k", time.Minute))
	owner := l.(*kit.Life).Owner()
	if err := breaker.Break(t.Context(), "k", owner); err != nil || !lost.Load() {
		t.Errorf("break whose reply is lost: %v, lost %v", err, lost.Load())
	}
	storetest.Lost(t, l, soon)
	if err := breaker.Break(t.Context(), "k", owner); !errors.Is(err, backend.ErrLost) {
		t.Errorf("break of a key that is gone: %v, want ErrLost", err)
	}
}

// Break revokes no etcd lease that another lock uses by then. Between the read and the delete, the broken lock may have
// moved to another etcd lease, and another lock may use the old one.
func TestBreakSparesReusedLease(t *testing.T) {
	t.Parallel()
	s := shared(t)
	const ttl = 20 * time.Second
	b, other := opened(t, s.URL()), opened(t, s.URL())
	victim := acquire(t, b, req("k", ttl))
	was := leaseOf(victim).id
	var reused string
	change := sync.OnceFunc(func() {
		if err := victim.Renew(t.Context(), 2*ttl); err != nil {
			t.Error(err)
			return
		}
		for _, key := range []string{"a", "b", "c", "d"} {
			if l, err := b.Acquire(t.Context(), req(key, ttl)); err == nil && leaseOf(l).id == was {
				reused = key
				return
			}
		}
	})
	breaker := intercepted(t, s.Addr, s.options(), func(ctx context.Context, method string, req, reply any,
		cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if deletes(req) {
			change()
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	if err := breaker.Break(t.Context(), "k", victim.(*kit.Life).Owner()); err != nil {
		t.Fatal(err)
	}
	if reused == "" {
		t.Fatal("the lease was not used again: the test proves nothing")
	}
	if _, err := other.Acquire(t.Context(), req(reused, ttl)); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("a key whose lock uses the lease again: %v, want ErrHeld", err)
	}
	storetest.Lost(t, victim, soon)
}

// The release of a lease that somebody has broken is ErrLost, although an earlier write of its key got no reply.
func TestReleaseOfBrokenLeaseIsLost(t *testing.T) {
	t.Parallel()
	s := shared(t)
	const ttl = 20 * time.Second
	var silent atomic.Bool
	var lost atomic.Int64
	b := intercepted(t, s.Addr, s.options(), func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if strings.HasSuffix(method, "/Txn") && silent.Load() {
			lost.Add(1)
			return status.Error(codes.Unavailable, "the reply is lost")
		}
		return err
	})
	other := opened(t, s.URL())
	for name, unanswered := range map[string]func(key string) backend.Lease{
		"acquire": func(key string) backend.Lease {
			silent.Store(true)
			before := lost.Load()
			done := startAcquire(t.Context(), b, req(key, ttl))
			until(t, soon, "a reply is lost", func() bool { return lost.Load() > before })
			silent.Store(false)
			return granted(t, done, soon).Lease
		},
		"renew": func(key string) backend.Lease {
			l := acquire(t, b, req(key, ttl))
			ctx, cancel := context.WithTimeout(t.Context(), leastLimit)
			defer cancel()
			silent.Store(true)
			if err := l.Renew(ctx, 2*ttl); err == nil {
				t.Error("a renewal without a reply succeeded")
			}
			silent.Store(false)
			return l
		},
	} {
		l := unanswered(name)
		b.guard.stop(l.(*kit.Life).Data.(*boundKey)) // else it may report the loss before the release
		if err := other.Break(t.Context(), name, l.(*kit.Life).Owner()); err != nil {
			t.Fatal(err)
		}
		next := acquire(t, other, req(name, ttl))
		if err := l.Release(t.Context()); !errors.Is(err, backend.ErrLost) {
			t.Errorf("%s without a reply, then Break: release: %v, want ErrLost", name, err)
		}
		release(t, next)
	}
}
