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

// A slowLink delays the answer to one look of a waiter for who is before, and deletions before they are sent.
type slowLink struct {
	answer    atomic.Int64 // the delay of the next look's answer
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

// looksBefore reports whether a request asks who is before a place in the queue.
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

// A grant that came too late is given back, and its owner is spent: an Acquire that went on under it would be granted
// the key that is just being deleted, and there would be two owners.
func TestOwnerGivenBackIsNotGranted(t *testing.T) {
	t.Parallel()
	s := shared(t)
	link := &slowLink{deletions: 50 * time.Millisecond}
	// one attempt may take longer than the TTL
	b := intercepted(t, s.Addr, &Options{Namespace: s.namespace, Timeout: 20 * time.Second}, link.unary)
	other := opened(t, s.URL())
	const ttl = 2 * usualMinTTL // for so long the machine may stand still before the waiter's turn
	holder := acquire(t, other, req("k", time.Minute))
	done := queueUp(t, b, waiting("k", ttl), 1)
	next := queueUp(t, other, waiting("k", time.Minute), 2)
	link.answer.Store(int64(ttl)) // to the look that finds it the first
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

// A laggingWatch is a member's that has not come further than a revision: a watch of the present begins there, and
// sends what comes after as the member catches up.
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

// A waiter that is notified of the deletion of an earlier key of the same name, by a member that lags behind, keeps its
// place.
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
	until(t, soon, "a name is used again", func() bool { // not after a release that was repeated
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
	// The member catches up within the 100 ms for which a server leaves watches of the past alone.
	time.Sleep(300 * time.Millisecond) // sleeps: longer than the 100 ms for which a server leaves watches of the past alone
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

// name is what the contender of a lease is called.
func name(l backend.Lease) string { return l.(*kit.Life).Data.(*lockedKey).name }
