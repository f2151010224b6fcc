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

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/storetest"
)

// A fullWatch opens streams that accept no more messages once full is set, as if the network dropped packets.
type fullWatch struct {
	pb.WatchClient
	full    atomic.Bool
	blocked atomic.Int64 // the number of blocked messages
}

type fullStream struct {
	pb.Watch_WatchClient
	client *fullWatch
}

func (w *fullWatch) Watch(ctx context.Context, opts ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	s, err := w.WatchClient.Watch(ctx, opts...)
	return &fullStream{s, w}, err
}

func (s *fullStream) Send(r *pb.WatchRequest) error {
	if s.client.full.Load() {
		s.client.blocked.Add(1)
		<-s.Context().Done()
		return s.Context().Err()
	}
	return s.Watch_WatchClient.Send(r)
}

// If the stream with the watches accepts no more messages, losses are still reported on time, and waits and releases
// still end on time.
func TestFullStreamDelaysNobody(t *testing.T) {
	t.Parallel()
	s := shared(t)
	storetest.ThreeTries(t, func() error { return delayedByFullStream(t, s) })
}

// delayedByFullStream returns an error if a wait, a release or a loss is late.
func delayedByFullStream(t *testing.T, s site) error {
	t.Helper()
	b, other := opened(t, s.URL()), opened(t, s.URL())
	full := &fullWatch{WatchClient: b.watches.client}
	b.watches.client = full
	const ttl, most = 4 * time.Second, time.Second
	holder := acquire(t, other, req("busy", time.Minute))
	ending := acquire(t, b, req("released", time.Minute))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiter := startAcquire(ctx, b, waiting("busy", time.Minute))
	until(t, soon, "the waiter is queued", func() bool {
		h, err := other.Inspect(t.Context(), "busy")
		return err == nil && h.Waiters == 1
	})
	var list []backend.Renewal
	notified := make(chan time.Time, 2)
	for range 2 {
		l := acquire(t, b, req(backend.NewOwner(), ttl))
		l.(*kit.Life).OnLost(func() { notified <- time.Now() })
		list = append(list, backend.Renewal{Lease: l, TTL: ttl})
	}
	for _, err := range b.RenewBatch(t.Context(), list) {
		if err != nil {
			t.Fatal(err)
		}
	}
	deadline := list[0].Lease.Deadline()
	watched(t, b, list[0].Lease, list[1].Lease)
	time.Sleep(time.Until(deadline) - 100*time.Millisecond) // sleeps: until just before the deadline
	full.full.Store(true)
	var late []error
	begun := time.Now()
	cancel()
	if o := <-waiter; o.At.Sub(begun) > most {
		late = append(late, fmt.Errorf("a wait ended %v late: %w", o.At.Sub(begun), o.Err))
	}
	begun = time.Now()
	release(t, ending)
	if took := time.Since(begun); took > most {
		late = append(late, fmt.Errorf("a release took %v", took))
	}
	for range list {
		if by := (<-notified).Sub(deadline); by > most {
			late = append(late, fmt.Errorf("a loss was reported %v late", by))
		}
	}
	until(t, soon, "a message is blocked", func() bool { return full.blocked.Load() > 0 })
	full.full.Store(false)
	release(t, holder)
	return errors.Join(late...)
}
