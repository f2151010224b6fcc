package etcd

import (
	"context"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/anylock/lock/backend"
)

// A refusal takes one request. If shared leases hold the key, it takes two, because the error contains their number.
func TestRequestsRefused(t *testing.T) {
	t.Parallel()
	s := shared(t)
	other := opened(t, s.URL())
	const least, most = 1, 2
	refusal := func(what string, r backend.Request, want int) {
		t.Helper()
		const attempts = 3 // on a slow machine a request without a reply in time is repeated
		var counts map[string]int
		for range attempts {
			b, w := wired(t, s)
			warm(t, b, readerTTL)
			w.take()
			held(t, b, r)
			if counts, _ = w.take(); counts["Txn"] == want {
				return
			}
		}
		t.Errorf("%s: %v, want %d transactions", what, counts, want)
	}
	writer := acquire(t, other, req("k", readerTTL))
	refusal("a writer behind a writer", req("k", readerTTL), least)
	refusal("a reader behind a writer", asReader(req("k", readerTTL)), least)
	release(t, writer)
	reader := acquire(t, other, asReader(req("k", readerTTL)))
	refusal("a writer behind a reader", req("k", readerTTL), most)
	done := queueUp(t, other, waiting("k", readerTTL), 1)
	refusal("a reader behind a waiting writer", asReader(req("k", readerTTL)), most)
	release(t, reader)
	release(t, granted(t, done, soon).Lease)
}

// The transaction of an exclusive acquire has one comparison and, in either case, one operation.
func TestOperationsOfExclusiveAcquire(t *testing.T) {
	t.Parallel()
	s := shared(t)
	var acquires []*pb.TxnRequest
	b := intercepted(t, s.Addr, s.options(), func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if txn, ok := req.(*pb.TxnRequest); ok && len(txn.Success) > 0 && txn.Success[0].GetRequestPut() != nil {
			acquires = append(acquires, txn)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	l := acquire(t, b, req("k", readerTTL))
	held(t, b, req("k", readerTTL))
	release(t, l)
	if len(acquires) < 2 {
		t.Fatalf("%d acquires", len(acquires))
	}
	for _, txn := range acquires {
		if len(txn.Compare) != 1 || len(txn.Success) != 1 || len(txn.Failure) != 1 {
			t.Errorf("an acquire is %v", txn)
		}
	}
}
