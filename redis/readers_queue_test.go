package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// renewalOf returns the request that renews a reader, given as its member of the sorted set, to an hour.
func renewalOf(b *Backend, key, member string) exchange.Request {
	return renewScript.Request([]string{b.naming.lock(key)}, member, time.Hour.Milliseconds())
}

// Nobody overtakes a waiting writer. The last reader's release hands the key to the writer at once, and the readers
// behind the writer then enter together.
func TestWriterBetweenReaders(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	clients := []*Backend{opened(t, s.URL), opened(t, s.URL), opened(t, s.URL)}
	b := clients[0]
	took := leastOf(func(int) (took time.Duration, enough bool) {
		first, second := acquire(t, b, shared(req("k", time.Hour))), acquire(t, b, shared(req("k", time.Hour)))
		writer := queueUp(t, b, waiting("k", time.Hour), 1)
		if h := refused(t, b, shared(req("k", time.Hour))); h.Shared != 2 {
			t.Errorf("a reader behind a waiting writer: held by %+v", h)
		}
		var readers []<-chan outcome
		for i, c := range clients {
			readers = append(readers, queueUp(t, c, shared(waiting("k", time.Hour)), 2+i))
		}
		next := queueUp(t, b, waiting("k", time.Hour), 5)
		behind := queueUp(t, b, shared(waiting("k", time.Hour)), 6)
		release(t, first)
		if h := inspect(t, b, "k"); h.Shared != 1 || h.Waiters != 6 {
			t.Errorf("after one of two readers: %+v", h)
		}
		begun := time.Now()
		release(t, second)
		o := granted(t, writer, soon)
		took = o.At.Sub(begun)
		release(t, o.Lease)
		var leases []backend.Lease
		for _, r := range readers { // release none before all have entered
			leases = append(leases, granted(t, r, soon).Lease)
		}
		if h := inspect(t, b, "k"); h.Shared != 3 || h.Waiters != 2 {
			t.Errorf("after the writer: %+v, want 3 readers, 2 waiters", h)
		}
		for _, l := range leases {
			release(t, l)
		}
		release(t, granted(t, next, soon).Lease)
		release(t, granted(t, behind, soon).Lease)
		return took, took < reservation
	})
	t.Logf("the writer entered %v after the last reader", took)
	if took >= reservation {
		t.Errorf("the writer entered %v after the last reader", took)
	}
}

// If a waiting writer is cancelled, the readers behind it enter at once, although another reader holds the key.
func TestCancelledWriterFreesReaders(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	l := acquire(t, b, shared(req("k", time.Hour)))
	took := leastOf(func(int) (took time.Duration, enough bool) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		writer := startAcquire(ctx, b, waiting("k", time.Hour))
		until(t, soon, "the writer is queued", func() bool { return inspect(t, b, "k").Waiters == 1 })
		readers := []<-chan outcome{
			queueUp(t, b, shared(waiting("k", time.Hour)), 2), queueUp(t, opened(t, s.URL), shared(waiting("k", time.Hour)), 3),
		}
		begun := time.Now()
		cancel()
		if o := <-writer; !errors.Is(o.Err, context.Canceled) {
			t.Errorf("the writer: %v", o.Err)
		}
		for _, r := range readers {
			o := granted(t, r, soon)
			took = max(took, o.At.Sub(begun))
			release(t, o.Lease)
		}
		return took, took < reservation
	})
	t.Logf("the readers entered %v after the writer gave up", took)
	if took >= reservation {
		t.Errorf("the readers entered %v after the writer gave up", took)
	}
	release(t, l)
}

// A dead writer in the queue delays the readers behind it by a few seconds, although another reader holds the key. A
// live writer is not overtaken.
func TestDeadWriterFreesReaders(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	c, ctx := s.raw(t), context.Background()
	queue := b.naming.names("k").queue
	l := acquire(t, b, shared(req("k", time.Hour)))
	for turn := range 2 { // two dead writers, each of which causes this delay
		dead(t, c, b, "k", float64(turn))
	}
	r := queueUp(t, b, shared(waiting("k", time.Hour)), 3)
	live := queueUp(t, b, waiting("k", time.Hour), 4)
	last := queueUp(t, b, shared(waiting("k", time.Hour)), 5)
	if left := c.PTTL(ctx, queue).Val(); left <= 57*time.Second {
		t.Skipf("the machine paused for 3s")
	}
	for range 2 {
		before := c.ZCard(ctx, queue).Val()
		c.PExpire(ctx, queue, 57*time.Second) // as if 3 s had passed
		until(t, maxRecheck+soon, "a dead writer is removed", func() bool { return c.ZCard(ctx, queue).Val() < before })
	}
	release(t, granted(t, r, maxRecheck+soon).Lease)
	if h := inspect(t, b, "k"); h.Shared != 1 || h.Waiters != 2 {
		t.Errorf("after the dead writers: %+v, want 1 reader, and a live writer and a reader behind it", h)
	}
	// The requests of the live writer keep its place.
	c.PExpire(ctx, queue, 59*time.Second) // as if a second had passed
	until(t, maxRecheck+soon, "the writer's request extends the queue", func() bool {
		return c.PTTL(ctx, queue).Val() > 59*time.Second
	})
	release(t, l)
	release(t, granted(t, live, soon).Lease)
	release(t, granted(t, last, soon).Lease)
}

// Dead readers in front of a writer are notified together, and delay the writer by one reservation.
func TestDeadReadersInFront(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	c, ctx := s.raw(t), context.Background()
	queue := b.naming.names("k").queue
	limit := deadWaitersCost(1)
	took := leastOf(func(int) (took time.Duration, enough bool) {
		l := acquire(t, b, req("k", time.Hour))
		writer := queueUp(t, b, waiting("k", time.Hour), 1)
		for i, member := range []string{"one", "two", "three"} {
			member = "sdddddddddddddddddddddddddddddddd" + member
			if err := c.ZAdd(ctx, queue, redis.Z{Score: float64(i), Member: member}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		release(t, l)
		if h := inspect(t, b, "k"); time.Since(begun) < reservation/2 && (h.Shared != 3 || h.Token != 0 || h.Waiters != 1) {
			t.Errorf("reserved for three readers: %+v", h)
		}
		o := granted(t, writer, maxRecheck+soon)
		release(t, o.Lease)
		took = o.At.Sub(begun)
		return took, took <= limit
	})
	if took > limit {
		t.Errorf("after three dead readers a writer was granted after %v, want within %v", took, limit)
	}
}

// After a holder has died, the next Acquire hands the key to the queue, whatever the modes of the Acquire and the
// waiter.
func TestQueueBeforeAFreeKey(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	for _, first := range []bool{false, true} {
		for _, come := range []bool{false, true} {
			l := acquire(t, b, req("k", time.Hour))
			r := waiting("k", time.Hour)
			r.Shared = first
			next := queueUp(t, b, r, 1)
			s.evict(t, "k") // as if the lease had expired
			try := req("k", time.Hour)
			try.Shared = come
			o, err := b.Acquire(context.Background(), try)
			switch {
			case first && come:
				if err != nil {
					t.Errorf("a reader that does not wait, beside readers that waited: %v", err)
				} else {
					release(t, o)
				}
			case err == nil:
				t.Error("a waiter was passed")
				release(t, o)
			}
			release(t, granted(t, next, reservation).Lease)
			_ = l.Release(context.Background()) // it is lost
		}
	}
}

// A writer that is first in the queue after the readers ahead of it have entered keeps its place: the queue expires
// again, and nobody takes the writer for dead.
func TestWriterBehindAdmittedReaders(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	l := acquire(t, b, req("k", time.Hour))
	reader := queueUp(t, b, shared(waiting("k", time.Hour)), 1)
	writer := queueUp(t, b, waiting("k", time.Hour), 2)
	release(t, l)
	if left := s.raw(t).PTTL(context.Background(), b.naming.names("k").queue).Val(); left <= 0 {
		t.Errorf("the queue ends in %v, want within a minute", left)
	}
	first := granted(t, reader, soon).Lease
	refused(t, b, shared(req("k", time.Hour)))
	release(t, first)
	release(t, granted(t, writer, soon).Lease)
}
