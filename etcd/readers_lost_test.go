package etcd

import (
	"context"
	"errors"
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

// A lossyLink loses the reply to one transaction that writes a shared contender's key, after the server has executed
// it.
type lossyLink struct {
	armed atomic.Bool
	then  func() // called before the request is repeated
}

func (l *lossyLink) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if txn, ok := req.(*pb.TxnRequest); ok && len(txn.Compare) > 1 && err == nil && l.armed.Swap(false) {
		if l.then != nil {
			l.then()
		}
		return status.Error(codes.Unavailable, "the reply is lost")
	}
	return err
}

// A reader whose grant got no reply recognizes its own key, even beside other readers and ahead of a writer.
func TestLostReplyToReader(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	link := &lossyLink{}
	b, other := intercepted(t, s.Addr, s.options(), link.unary), opened(t, s.URL())
	warm(t, b, readerTTL)
	holder := acquire(t, other, asReader(req("k", readerTTL)))
	for _, r := range []backend.Request{req("k", readerTTL), waiting("k", readerTTL)} {
		for _, before := range []bool{false, true} {
			var writer <-chan storetest.Outcome
			if link.then = nil; before {
				link.then = func() { writer = queueUp(t, other, waiting("k", readerTTL), 1) }
			}
			link.armed.Store(true)
			l := acquire(t, b, asReader(r))
			if link.armed.Load() {
				t.Fatal("no reply was lost: the test proves nothing")
			}
			if kv := get(t, c, ownKey(t, c, l.(*kit.Life).Owner())); uint64(kv.CreateRevision) != l.Token() {
				t.Errorf("wait %v, writer %v: token %d of a key created at %d", r.Wait, before, l.Token(), kv.CreateRevision)
			}
			if err := l.Renew(t.Context(), readerTTL); err != nil {
				t.Error(err)
			}
			if before {
				waits(t, "a writer behind readers", writer)
				release(t, holder)
				waits(t, "a writer behind a reader", writer)
			}
			release(t, l)
			if before {
				release(t, granted(t, writer, soon).Lease)
				holder = acquire(t, other, asReader(req("k", readerTTL)))
			}
			r.Owner += "again"
		}
	}
	release(t, holder)
	until(t, soon, "no key is left", func() bool { return s.countKeys(t, c) == 0 })
}

// If the reply that contains a reader's place is lost, the reader does not wait for a writer that has queued since.
// Otherwise they would wait for each other.
func TestReaderWaitsForNoLaterWriter(t *testing.T) {
	t.Parallel()
	s := shared(t)
	link := &lossyLink{}
	b, other := intercepted(t, s.Addr, s.options(), link.unary), opened(t, s.URL())
	first := acquire(t, other, req("k", readerTTL))
	b.lastBusy.Store(time.Now().Add(time.Minute).UnixNano()) // so the first request queues
	var second <-chan storetest.Outcome
	queued := make(chan struct{})
	link.then = func() {
		defer close(queued)
		second = queueUp(t, other, waiting("k", readerTTL), 2)
	}
	link.armed.Store(true)
	done := startAcquire(context.Background(), b, asReader(waiting("k", readerTTL)))
	<-queued
	release(t, first)
	reader := granted(t, done, soon).Lease
	waits(t, "a writer behind a reader", second)
	release(t, reader)
	release(t, granted(t, second, soon).Lease)
}

// A shared request that has joined the queue behind an exclusive holder, without a reply, is not granted by the request
// that it makes next, even if no key has been busy lately.
func TestReaderThatQueuedWithoutReplyWaits(t *testing.T) {
	t.Parallel()
	s := shared(t)
	var lossy atomic.Bool
	b := intercepted(t, s.Addr, s.options(), func(ctx context.Context, method string, req, reply any,
		cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if _, ok := req.(*pb.TxnRequest); ok && lossy.Load() && err == nil {
			return status.Error(codes.Unavailable, "the reply is lost")
		}
		return err
	})
	writer := acquire(t, opened(t, s.URL()), req("k", readerTTL))
	r := asReader(waiting("k", readerTTL))
	a := newAttempt(b, r)
	defer a.cleanUp()
	b.lastBusy.Store(time.Now().UnixNano())
	lossy.Store(true)
	if l, err := a.requestKey(t.Context()); l != nil || !errors.Is(unavailable(err), backend.ErrUnavailable) {
		t.Fatalf("a request without a reply: %v, %v", l, err)
	}
	lossy.Store(false)
	b.lastBusy.Store(0)
	l, err := a.requestKey(t.Context())
	if l != nil {
		t.Fatalf("a reader is granted the key beside a writer: %v, %v", l, err)
	}
	if !errors.Is(err, backend.ErrHeld) || a.place.predecessor.key == "" {
		t.Fatalf("after the request without a reply: %v, the predecessor is %q", err, a.place.predecessor.key)
	}
	release(t, writer)
}
