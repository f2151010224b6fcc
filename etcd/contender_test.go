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
	"github.com/anylock/lock/backend/kit"
)

// A slowLink delays the reply to one read of the contender ahead. It also delays deletions before they are sent.
type slowLink struct {
	answer    atomic.Int64 // the delay of the next reply to a read of the contender ahead
	deletions time.Duration
}

func (s *slowLink) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	if deletes(req) {
		time.Sleep(s.deletions) // sleeps: a slow link
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
	if looksBefore(req) {
		time.Sleep(time.Duration(s.answer.Swap(0))) // sleeps: a slow link
	}
	return err
}

// looksBefore reports whether a request reads the contender ahead of a place in the queue.
func looksBefore(req any) bool {
	txn, _ := req.(*pb.TxnRequest)
	for _, op := range txn.GetSuccess() {
		if op.GetRequestRange().GetMaxCreateRevision() != 0 {
			return true
		}
	}
	return false
}

// deletes reports whether a request deletes keys.
func deletes(req any) bool {
	txn, _ := req.(*pb.TxnRequest)
	for _, op := range txn.GetSuccess() {
		if op.GetRequestDeleteRange() != nil {
			return true
		}
	}
	return false
}

// If the reply to a grant arrives after the deadline, the Acquire fails and deletes its key. If it continued with that
// key, it could be granted the key that is being deleted, and there would be two owners.
func TestOwnerGivenBackIsNotGranted(t *testing.T) {
	t.Parallel()
	s := shared(t)
	link := &slowLink{deletions: 50 * time.Millisecond}
	// With this Timeout, one attempt may take longer than the TTL.
	b := intercepted(t, s.Addr, &Options{Namespace: s.namespace, Timeout: 20 * time.Second}, link.unary)
	other := opened(t, s.URL())
	const ttl = 2 * usualMinTTL // the machine may stand still for this long before the waiter's turn
	holder := acquire(t, other, req("k", time.Minute))
	done := queueUp(t, b, waiting("k", ttl), 1)
	next := queueUp(t, other, waiting("k", time.Minute), 2)
	link.answer.Store(int64(ttl)) // for the read that finds the waiter first
	release(t, holder)
	o := <-done
	if link.answer.Load() != 0 {
		t.Fatal("no answer was late: the test proves nothing")
	}
	second := granted(t, next, 3*ttl)
	if o.Err != nil {
		if !errors.Is(o.Err, backend.ErrLost) {
			t.Errorf("a grant that came after its deadline: %v", o.Err)
		}
	} else if lost := time.Until(o.Lease.Deadline()); lost > 0 {
		select {
		case <-o.Lease.Lost():
		default:
			t.Errorf("a second owner, %v before the deadline of the first", lost)
		}
	}
	release(t, second.Lease)
}

// A laggingWatch belongs to a member that lags behind at the revision at; 0 means that it does not lag. A watch of the
// present begins at that revision, and reports later changes as the member catches up.
type laggingWatch struct {
	pb.WatchClient
	at atomic.Int64
}

type laggingStream struct {
	pb.Watch_WatchClient
	client *laggingWatch
}

func (w *laggingWatch) Watch(ctx context.Context, opts ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	s, err := w.WatchClient.Watch(ctx, opts...)
	return &laggingStream{s, w}, err
}

func (s *laggingStream) Send(r *pb.WatchRequest) error {
	if create := r.GetCreateRequest(); create != nil && s.client.at.Load() != 0 {
		create.StartRevision = s.client.at.Load() + 1
	}
	return s.Watch_WatchClient.Send(r)
}

func (s *laggingStream) Recv() (*pb.WatchResponse, error) {
	r, err := s.Watch_WatchClient.Recv()
	if err == nil && r.Created && s.client.at.Load() != 0 {
		r.Header.Revision = s.client.at.Load()
	}
	return r, err
}

// A waiter keeps its place if a member that lags behind reports the deletion of an earlier key with the same name.
func TestEarlierKeyOfTheSameName(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	b, behind := opened(t, s.URL()), opened(t, s.URL())
	lagging, err := onClient(raw(t, s.Addr), s.options())
	if err != nil {
		t.Fatal(err)
	}
	defer lagging.Close()
	watch := &laggingWatch{WatchClient: lagging.watches.client}
	lagging.watches.client = watch
	const ttl = 20 * time.Second
	holder := acquire(t, b, req("k", ttl))
	until(t, soon, "a name is used again", func() bool { // a release that was repeated does not reuse its name
		earlier := holder
		watch.at.Store(int64(earlier.Token()))
		release(t, earlier)
		holder = acquire(t, b, req("k", ttl))
		return name(earlier) == name(holder)
	})
	r := waiting("k", ttl)
	first := queueUp(t, lagging, r, 1)
	place := get(t, c, ownKey(t, c, r.Owner)).CreateRevision
	second := queueUp(t, behind, waiting("k", ttl), 2)
	// The member catches up within 100 ms, the interval at which a server serves watches of the past.
	time.Sleep(300 * time.Millisecond) // sleeps: longer than the interval at which a server serves watches of the past
	release(t, holder)
	o := granted(t, first, soon)
	if o.Lease.Token() != uint64(place) {
		t.Errorf("token %d, the place in the queue was %d: it was lost", o.Lease.Token(), place)
	}
	select {
	case <-second:
		t.Error("the waiter behind came first")
	default:
	}
	release(t, o.Lease)
	release(t, granted(t, second, soon).Lease)
}

// name returns the name of a lease's contender.
func name(l backend.Lease) string { return l.(*kit.Life).Data.(*boundKey).name }
