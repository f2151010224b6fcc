package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

// asReader returns r as a request for a shared lease.
func asReader(r backend.Request) backend.Request {
	r.Shared = true
	return r
}

// held makes the request r, which must be refused, and returns the holder in the error. r must not wait.
func held(t testing.TB, b backend.Backend, r backend.Request) backend.Holder {
	t.Helper()
	l, err := b.Acquire(t.Context(), r)
	refused, ok := errors.AsType[*backend.HeldError](err)
	if !ok {
		t.Fatalf("acquire of a busy key: %v, %v", l, err)
	}
	return refused.Holder
}

// waits fails the test if a waiting Acquire has ended.
func waits(t testing.TB, what string, done <-chan storetest.Outcome) {
	t.Helper()
	select {
	case o := <-done:
		t.Fatalf("%s: does not wait: %v, %v", what, o.Lease, o.Err)
	default:
	}
}

const readerTTL = 20 * time.Second

func TestReadersExcludeWritersOnly(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b, other := opened(t, s.URL()), opened(t, s.URL())
	first := acquire(t, b, asReader(req("k", readerTTL)))
	second := acquire(t, b, asReader(req("k", readerTTL)))
	third := acquire(t, other, asReader(waiting("k", readerTTL)))
	if h := held(t, other, req("k", readerTTL)); h.Shared != 3 || h.Token != first.Token() {
		t.Errorf("a writer is refused by %+v, want the first of three readers", h)
	}
	release(t, second)
	release(t, first)
	if h := held(t, other, req("k", readerTTL)); h.Shared != 1 || h.Token != third.Token() {
		t.Errorf("a writer is refused by %+v, want the one reader", h)
	}
	release(t, third)
	writer := acquire(t, other, req("k", readerTTL))
	if writer.Token() <= third.Token() {
		t.Errorf("token %d after %d", writer.Token(), third.Token())
	}
	if h := held(t, b, asReader(req("k", readerTTL))); h.Shared != 0 || h.Token != writer.Token() {
		t.Errorf("a reader is refused by %+v, want the writer", h)
	}
	release(t, writer)
}

// No reader overtakes a waiting writer. If the writer is canceled, the readers behind it are granted the key beside the
// holder.
func TestReadersBehindCancelledWriter(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b, other := opened(t, s.URL()), opened(t, s.URL())
	holder := acquire(t, b, asReader(req("k", readerTTL)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	writer := startAcquire(ctx, other, waiting("k", readerTTL))
	storetest.Queued(t, b, "k", 1)
	for _, client := range []*Backend{b, other} {
		if h := held(t, client, asReader(req("k", readerTTL))); h.Shared != 1 || h.Token != holder.Token() || h.Waiters != 1 {
			t.Errorf("a reader is refused by %+v, want the reader that holds", h)
		}
	}
	readers := []<-chan storetest.Outcome{
		queueUp(t, b, asReader(waiting("k", readerTTL)), 2), queueUp(t, other, asReader(waiting("k", readerTTL)), 3),
	}
	for _, done := range readers {
		waits(t, "a reader behind a writer", done)
	}
	cancel()
	if o := <-writer; !errors.Is(o.Err, context.Canceled) || !errors.Is(o.Err, backend.ErrHeld) {
		t.Errorf("cancelled: %v", o.Err)
	}
	for _, done := range readers {
		release(t, granted(t, done, soon).Lease)
	}
	release(t, holder)
}

// Readers behind a writer whose process is dead are granted the key when the writer's etcd lease ends.
func TestReadersBehindKilledWriter(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b, c := opened(t, s.URL()), raw(t, s.Addr)
	holder := acquire(t, b, asReader(req("k", readerTTL)))
	lease, err := c.Grant(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	writer := b.options.prefix("k") + "00-1" // nobody renews its lease
	if _, err := c.Put(t.Context(), writer, "dead", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	reader := queueUp(t, b, asReader(waiting("k", readerTTL)), 2)
	release(t, granted(t, reader, 2*time.Second+maxLate+soon).Lease)
	release(t, holder)
}

// Readers that queue one after the other hold the key together. The writer behind them waits for all of them, in
// whatever order they release. The reader behind the writer waits for the writer.
func TestWriterWaitsForAllReaders(t *testing.T) {
	t.Parallel()
	for _, order := range [][3]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			t.Parallel()
			s := shared(t)
			b, other := opened(t, s.URL()), opened(t, s.URL())
			holder := acquire(t, other, req("k", readerTTL))
			var waiters [3]<-chan storetest.Outcome
			for i := range waiters {
				waiters[i] = queueUp(t, []*Backend{b, other, b}[i], asReader(waiting("k", readerTTL)), i+1)
			}
			writer := queueUp(t, b, waiting("k", readerTTL), 4)
			last := queueUp(t, other, asReader(waiting("k", readerTTL)), 5)
			release(t, holder)
			var readers [3]backend.Lease
			for i, done := range waiters {
				readers[i] = granted(t, done, soon).Lease
				if readers[i].Token() <= holder.Token() {
					t.Errorf("token %d after %d", readers[i].Token(), holder.Token())
				}
			}
			var begun time.Time
			for _, i := range order {
				storetest.Queued(t, b, "k", 2)
				waits(t, "a writer behind readers", writer)
				waits(t, "a reader behind a writer", last)
				begun = time.Now()
				release(t, readers[i])
			}
			o := granted(t, writer, soon)
			if o.At.Before(begun) {
				t.Errorf("the writer entered %v before the last reader's release", begun.Sub(o.At))
			}
			t.Logf("the writer entered %v after the last reader's release began", o.At.Sub(begun))
			for _, r := range readers {
				if o.Lease.Token() <= r.Token() {
					t.Errorf("token %d after %d", o.Lease.Token(), r.Token())
				}
			}
			waits(t, "a reader behind a writer", last)
			release(t, o.Lease)
			if next := granted(t, last, soon).Lease; next.Token() <= o.Lease.Token() {
				t.Errorf("token %d after %d", next.Token(), o.Lease.Token())
			} else {
				release(t, next)
			}
		})
	}
}

// A waiting reader whose etcd lease has ended loses its place and queues again.
func TestReaderWhosePlaceHasEnded(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	b, other := opened(t, s.URL()), opened(t, s.URL())
	first := acquire(t, other, req("k", readerTTL))
	r := asReader(waiting("k", readerTTL))
	done := queueUp(t, b, r, 1)
	second := queueUp(t, other, waiting("k", readerTTL), 2)
	old := get(t, c, ownKey(t, c, r.Owner))
	if _, err := c.Revoke(t.Context(), clientv3.LeaseID(old.Lease)); err != nil {
		t.Fatal(err)
	}
	release(t, first)
	writer := granted(t, second, soon)
	waits(t, "a reader without a place", done)
	release(t, writer.Lease)
	reader := granted(t, done, soon).Lease
	if reader.Token() <= writer.Lease.Token() {
		t.Errorf("token %d after %d", reader.Token(), writer.Lease.Token())
	}
	release(t, reader)
}

// Renewals of other leases do not extend a reader's lease, even if they have the same client and key. The end of a
// reader does not affect other leases.
func TestReadersEndAlone(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b, other := opened(t, s.URL()), opened(t, s.URL())
	const ttl = 3 * usualMinTTL // a renewal has a third of it, which outlasts a stall of the machine
	short := acquire(t, b, asReader(req("k", ttl)))
	long := acquire(t, b, asReader(req("k", ttl)))
	alone := acquire(t, b, req("other key", ttl))
	begun := time.Now()
	renew := func() {
		t.Helper()
		for i, err := range b.RenewBatch(t.Context(), []backend.Renewal{{Lease: long, TTL: ttl}, {Lease: alone, TTL: ttl}}) {
			if err != nil {
				t.Fatalf("renewal %d: %v", i, err)
			}
		}
	}
	until(t, ttl+maxLate+soon, "the reader that is not renewed has ended", func() bool {
		renew()
		h, err := other.Inspect(t.Context(), "k")
		return err == nil && h.Shared == 1
	})
	t.Logf("a dead reader ended after %v", time.Since(begun))
	select {
	case <-short.Lost():
	default:
		t.Error("the reader has ended at the server, not at its client")
	}
	if err := short.Renew(t.Context(), ttl); !errors.Is(err, backend.ErrLost) {
		t.Errorf("renewal of an ended reader: %v", err)
	}
	renew()
	if h := held(t, other, req("k", ttl)); h.Shared != 1 || h.Token != long.Token() {
		t.Errorf("the holder is %+v, want the reader that was renewed", h)
	}
	release(t, long)
	release(t, acquire(t, other, req("k", ttl)))
	release(t, alone)
}

// Inspect reports the reader that ends last. List reports the key once. Break ends one reader.
func TestOperateReaders(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b, other := opened(t, s.URL()), opened(t, s.URL())
	requests := []backend.Request{req("k", 10*time.Second), req("k", time.Hour), req("k", time.Minute)}
	var readers []backend.Lease
	for _, r := range requests {
		readers = append(readers, acquire(t, b, asReader(r)))
	}
	writer := queueUp(t, other, waiting("k", readerTTL), 1)
	r := asReader(waiting("k", readerTTL))
	parked := queueUp(t, other, r, 2)
	h, err := other.Inspect(t.Context(), "k")
	if err != nil || h.Owner != requests[1].Owner || h.Token != readers[1].Token() || h.Shared != 3 || h.Waiters != 2 ||
		h.TTL < time.Hour-time.Minute {
		t.Errorf("inspect: %+v, %v, want the reader with an hour", h, err)
	}
	if keys, err := other.List(t.Context(), ""); err != nil || len(keys) != 1 || keys[0] != "k" {
		t.Errorf("list: %q, %v", keys, err)
	}
	if err := other.Break(t.Context(), "k", r.Owner); !errors.Is(err, backend.ErrLost) {
		t.Errorf("break of a reader that waits: %v", err)
	}
	for i, reader := range readers {
		if err := other.Break(t.Context(), "k", requests[i].Owner); err != nil {
			t.Fatal(err)
		}
		storetest.Lost(t, reader, soon)
		if i == len(readers)-1 {
			break
		}
		waits(t, "a writer behind readers", writer)
		if h, err := other.Inspect(t.Context(), "k"); err != nil || h.Shared != len(readers)-1-i {
			t.Errorf("after %d ended: %+v, %v", i+1, h, err)
		}
	}
	release(t, granted(t, writer, soon).Lease)
	release(t, granted(t, parked, soon).Lease)
}

// Among readers and writers of several clients, writers exclude everybody else. Every token is greater than the last
// writer's, and a writer's token is greater than all before it.
func TestReadersAndWritersMixed(t *testing.T) {
	t.Parallel()
	s := shared(t)
	const workers, rounds = 8, 25
	var mu sync.Mutex
	var readers, writers, most int
	var highest, lastWriter uint64
	enter := func(shared bool, token uint64) {
		mu.Lock()
		defer mu.Unlock()
		if shared {
			readers++
			most = max(most, readers)
		} else {
			writers++
		}
		if writers > 1 || writers == 1 && readers > 0 {
			t.Errorf("%d writers and %d readers", writers, readers)
		}
		if token <= lastWriter || !shared && token <= highest {
			t.Errorf("token %d after %d, the last writer's %d", token, highest, lastWriter)
		}
		if highest = max(highest, token); !shared {
			lastWriter = token
		}
	}
	leave := func(shared bool) {
		mu.Lock()
		defer mu.Unlock()
		if shared {
			readers--
		} else {
			writers--
		}
	}
	clients := []*Backend{opened(t, s.URL()), opened(t, s.URL()), opened(t, s.URL())}
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			for n := range rounds {
				r := waiting("k", readerTTL)
				r.Shared = (i+n)%4 != 0
				l, err := clients[i%len(clients)].Acquire(context.Background(), r)
				if err != nil {
					t.Error(err)
					return
				}
				enter(r.Shared, l.Token())
				_, _ = clients[i%len(clients)].Inspect(context.Background(), "k") // others arrive meanwhile
				leave(r.Shared)
				if err := l.Release(context.Background()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if most < 2 {
		t.Error("readers were never together")
	}
	t.Logf("at most %d readers together", most)
}
