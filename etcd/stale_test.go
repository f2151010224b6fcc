package etcd

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

// oldReads answers reads of the present with the state at the revision at, as servers before 3.4.42, 3.5.28 and 3.6.9
// may do after a pause.
type oldReads struct{ at, served atomic.Int64 }

func (o *oldReads) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	at, old := o.at.Load(), false
	if txn, ok := req.(*pb.TxnRequest); ok && at != 0 && len(txn.Compare) == 0 {
		for _, op := range txn.Success {
			if r := op.GetRequestRange(); r != nil && r.Revision == 0 {
				r.Revision, old = at, true
			}
		}
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
	if old && err == nil {
		reply.(*pb.TxnResponse).Header.Revision = at // such a server believes that this revision is current
		o.served.Add(1)
	}
	return err
}

// If reads are stale, a waiter is not granted the key beside the holder, and is granted the key when its turn comes. It
// detects its turn by a read at the revision that the watch reports.
func TestOldReadsMisleadNoWaiter(t *testing.T) {
	t.Parallel()
	s := shared(t)
	p := storetest.NewProxy(t, s.Addr)
	reads := &oldReads{}
	b := intercepted(t, p.Addr, s.options(), reads.unary)
	other := opened(t, s.URL())
	const ttl = 20 * time.Second
	first, second := acquire(t, other, req("k", ttl)), queueUp(t, other, waiting("k", ttl), 1)
	r := waiting("k", ttl)
	done := queueUp(t, b, r, 2)
	place := get(t, raw(t, s.Addr), ownKey(t, raw(t, s.Addr), r.Owner)).CreateRevision
	reads.at.Store(place) // at this revision, both others are ahead
	p.Cut()
	until(t, soon, "the waiter reads", func() bool { return reads.served.Load() > 0 })
	release(t, first)
	holder := granted(t, second, soon)
	p.Cut()
	select {
	case o := <-done:
		t.Fatalf("let in beside the holder: %v, %v", o.Lease, o.Err)
	case <-time.After(500 * time.Millisecond): // long enough for a wrong grant
	}
	release(t, holder.Lease)
	o := granted(t, done, 2*recheck)
	if o.Lease.Token() != uint64(place) {
		t.Errorf("token %d, the place was %d", o.Lease.Token(), place)
	}
	release(t, o.Lease)
}

// A waiter keeps its place if a stale read does not contain the place yet.
func TestOldReadLosesNoPlace(t *testing.T) {
	t.Parallel()
	s := shared(t)
	reads := &oldReads{}
	b := intercepted(t, s.Addr, s.options(), reads.unary)
	holder := acquire(t, opened(t, s.URL()), req("k", time.Minute))
	a := newAttempt(b, waiting("k", time.Minute))
	defer a.cleanUp()
	until(t, soon, "the attempt is queued", func() bool {
		_, _ = a.tryInQueue(t.Context())
		return a.contender.created != 0
	})
	place := a.contender.created
	reads.at.Store(place - 1)
	a.place = position{} // so that the next request reads the present
	if _, err := a.requestKey(t.Context()); !errors.Is(err, backend.ErrUnavailable) || reads.served.Load() == 0 {
		t.Errorf("a stale read: %v, %d served", err, reads.served.Load())
	}
	if a.contender.created != place {
		t.Errorf("the place was %d, and is %d", place, a.contender.created)
	}
	release(t, holder)
}
