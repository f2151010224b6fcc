package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

// asReader returns r as a shared request.
func asReader(r backend.Request) backend.Request {
	r.Shared = true
	return r
}

// wakeUp is the time limit of a wake-up, which takes milliseconds on a quiet machine. It is less than recheck.
const wakeUp = 3 * time.Second

// heldBy checks that err is a HeldError with these numbers, and returns the holder.
func heldBy(t *testing.T, what string, err error, readers, waiters int) backend.Holder {
	t.Helper()
	var held *backend.HeldError
	if !errors.As(err, &held) || held.Holder.Shared != readers || held.Holder.Waiters != waiters {
		t.Fatalf("%s: %v, %+v, want a HeldError with %d readers and %d waiters", what, err, held, readers, waiters)
	}
	return held.Holder
}

// Readers of several clients hold a key together. The writer that waits is granted the key only when all of them have
// released it.
func TestReadersBesideEachOther(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	b, other := opened(t, s.url()), opened(t, s.url())
	requests := []backend.Request{
		asReader(req("k", time.Minute)), asReader(waiting("k", time.Hour)), asReader(req("k", 8*time.Second)),
	}
	var readers []backend.Lease
	for i, r := range requests {
		readers = append(readers, acquire(t, []*Backend{b, other}[i%2], r))
		h, err := other.Inspect(t.Context(), "k")
		want := backend.Holder{Owner: r.Owner, Token: readers[i].Token(), Shared: i + 1}
		if err != nil || h != want {
			t.Errorf("inspect: %+v, %v, want %+v", h, err, want)
		}
	}
	_, err := b.Acquire(t.Context(), req("k", time.Minute))
	if h := heldBy(t, "an exclusive attempt", err, 3, 0); h.Owner != requests[2].Owner {
		t.Errorf("held by %s, want the last reader", h.Owner)
	}
	if keys, err := b.List(t.Context(), ""); err != nil || !slices.Equal(keys, []string{"k"}) {
		t.Errorf("list: %v, %v", keys, err)
	}
	writer := storetest.QueueUp(t, other, waiting("k", time.Minute), 1)
	for i, l := range readers {
		select {
		case o := <-writer:
			t.Fatalf("a writer beside %d readers: %+v", len(readers)-i, o)
		case <-time.After(10 * time.Millisecond):
		}
		release(t, l)
	}
	w := storetest.Granted(t, writer, wakeUp)
	for i, l := range readers {
		if w.Lease.Token() <= l.Token() {
			t.Errorf("writer's token %d is not above that of reader %d, %d", w.Lease.Token(), i, l.Token())
		}
	}
	_, err = b.Acquire(t.Context(), asReader(req("k", time.Minute)))
	heldBy(t, "a reader beside a writer", err, 0, 0)
	release(t, w.Lease)
	l := acquire(t, b, asReader(req("k", time.Minute)))
	if l.Token() <= w.Lease.Token() {
		t.Errorf("reader's token %d is not above the writer's, %d", l.Token(), w.Lease.Token())
	}
	release(t, l)
	if keys, err := b.List(t.Context(), ""); err != nil || len(keys) > 0 {
		t.Errorf("list of free keys: %v, %v", keys, err)
	}
}

// Requests are granted in the order of arrival. Readers that queue one after the other are granted the key together.
func TestReadersAndWritersKeepTheirOrder(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	b := opened(t, s.url())
	first := acquire(t, b, req("k", time.Minute))
	var waiters []<-chan storetest.Outcome
	order := []bool{true, true, true, false, true, false, false, true, true} // shared or not
	for i, isShared := range order {
		r := waiting("k", time.Minute)
		r.Shared = isShared
		waiters = append(waiters, storetest.QueueUp(t, b, r, i+1))
	}
	release(t, first)
	last := first.Token()
	for i := 0; i < len(order); {
		n := 1
		for ; order[i] && i+n < len(order) && order[i+n]; n++ {
		}
		var group []backend.Lease
		for _, w := range waiters[i : i+n] {
			group = append(group, storetest.Granted(t, w, wakeUp).Lease)
		}
		i += n
		for _, w := range waiters[i:] {
			select {
			case o := <-w:
				t.Fatalf("another request beside requests up to %d: %+v", i, o)
			default:
			}
		}
		lowest, highest := group[0].Token(), uint64(0)
		for _, l := range group {
			lowest, highest = min(lowest, l.Token()), max(highest, l.Token())
			release(t, l)
		}
		if lowest <= last {
			t.Errorf("requests up to %d: token %d after %d", i, lowest, last)
		}
		last = highest
	}
}

// A waiting writer keeps new readers out. If all waiting writers are canceled, the readers behind them are granted the
// key beside the holder.
func TestReadersBehindCancelledWriter(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	b := opened(t, s.url())
	for _, writers := range []int{1, 3} {
		key := fmt.Sprint("k", writers)
		reader := acquire(t, b, asReader(req(key, time.Minute)))
		var cancels []func()
		for i := range writers {
			ctx, cancel := context.WithCancel(t.Context())
			storetest.Start(ctx, b, waiting(key, time.Minute))
			storetest.Queued(t, b, key, i+1)
			cancels = append(cancels, cancel)
		}
		_, err := b.Acquire(t.Context(), asReader(req(key, time.Minute)))
		heldBy(t, "a reader that would pass a writer", err, 1, writers)
		var parked []<-chan storetest.Outcome
		for i := range 3 {
			parked = append(parked, storetest.QueueUp(t, b, asReader(waiting(key, time.Minute)), writers+i+1))
		}
		for len(cancels) > 0 { // in any order
			i := rand.N(len(cancels))
			cancels[i]()
			cancels = slices.Delete(cancels, i, i+1)
		}
		for _, p := range parked {
			release(t, storetest.Granted(t, p, wakeUp).Lease)
		}
		release(t, reader)
	}
}

// An exclusive request that does not wait may be queued behind a reader until it has deleted its node. Meanwhile, a
// reader that does not wait is not refused, because nobody waits for the key. It is refused if the exclusive request
// becomes first, or waits.
func TestReaderBesideRefusedTry(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	b := opened(t, s.url())
	queue := func(key string, m mode) (path string) {
		path, err := c.Create(b.dir(key)+"/"+nodePrefix("x", m), nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	remove := func(path string) {
		if err := c.Delete(path, -1); err != nil {
			t.Error(err)
		}
	}
	reader := acquire(t, b, asReader(req("k", time.Minute)))
	path := queue("k", exclusiveNoWait)
	done := storetest.Start(t.Context(), b, asReader(req("k", time.Minute)))
	until(t, soon, "the second reader queues", func() bool { return len(places(t, c, b, "k")) == 3 })
	remove(path)
	release(t, storetest.Granted(t, done, wakeUp).Lease)

	path = queue("k", exclusiveNoWait)
	done = storetest.Start(t.Context(), b, asReader(req("k", time.Minute)))
	until(t, soon, "the second reader queues", func() bool { return len(places(t, c, b, "k")) == 3 })
	release(t, reader)
	heldBy(t, "the other request is first in the end", (<-done).Err, 0, 0)
	remove(path)

	reader = acquire(t, b, asReader(req("k", time.Minute)))
	path = queue("k", exclusive)
	_, err := b.Acquire(t.Context(), asReader(req("k", time.Minute)))
	heldBy(t, "a reader that would pass a writer", err, 1, 1)
	remove(path)
	release(t, reader)
}

// Readers behind a writer whose process has died are granted the key when the writer's session ends.
func TestReadersBehindDeadWriter(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	b, dead := opened(t, s.url()), opened(t, s.url())
	reader := acquire(t, b, asReader(req("k", time.Minute)))
	const ttl = time.Second
	storetest.Start(t.Context(), dead, waiting("k", ttl))
	storetest.Queued(t, b, "k", 1)
	parked := storetest.QueueUp(t, b, asReader(waiting("k", time.Minute)), 2)
	class := dead.limits.sessionTimeout(ttl)
	dead.mu.Lock()
	sess := dead.sessions[class]
	dead.mu.Unlock()
	sess.end(errLeftToExpire)
	release(t, storetest.Granted(t, parked, class+dead.limits.expiryDelay()+soon).Lease)
	release(t, reader)
}

// Each reader has its own TTL. A reader that is not renewed ends, and its node is deleted, while others are renewed.
func TestReaderExpiresAlone(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	b := opened(t, s.url())
	// All readers are in one session, which lasts long enough for a busy server.
	const lasting, ttl = time.Minute, 1500 * time.Millisecond
	kept := acquire(t, b, asReader(req("k", lasting)))
	stale := acquire(t, b, asReader(req("k", lasting)))
	long := acquire(t, b, asReader(req("k", lasting)))
	if err := stale.Renew(t.Context(), ttl); err != nil {
		t.Fatal(err)
	}
	end := stale.Deadline()
	for time.Until(end) > -ttl/2 {
		if err := kept.Renew(t.Context(), lasting); err != nil {
			t.Fatal(err)
		}
		time.Sleep(ttl / 10) // sleeps: the pause between renewals
	}
	storetest.Lost(t, stale, soon)
	until(t, soon, "the node of the stale reader is deleted", func() bool { return len(places(t, c, b, "k")) == 2 })
	for err := range slices.Values([]error{stale.Renew(t.Context(), ttl), stale.Release(t.Context())}) {
		if !errors.Is(err, backend.ErrLost) {
			t.Errorf("the stale reader: %v, want ErrLost", err)
		}
	}
	release(t, kept)
	release(t, long)
}

// Break ends one reader, even if its owner is so long that only the last byte differs from another. It does not end a
// waiter.
func TestBreakEndsOneReader(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	b, admin := opened(t, s.url()), opened(t, s.url())
	long := strings.Repeat("\x00", backend.MaxOwnerLen-1)
	var readers []backend.Lease
	owners := []string{backend.NewOwner(), long + "a", long + "b", backend.NewOwner()}
	for _, owner := range owners {
		readers = append(readers, acquire(t, b, backend.Request{Key: "k", Owner: owner, TTL: time.Minute, Shared: true}))
	}
	writer := waiting("k", time.Minute)
	granted := storetest.QueueUp(t, b, writer, 1)
	behind := asReader(waiting("k", time.Minute))
	parked := storetest.QueueUp(t, b, behind, 2)
	for _, owner := range []string{writer.Owner, behind.Owner, "nobody"} {
		if err := admin.Break(t.Context(), "k", owner); !errors.Is(err, backend.ErrLost) {
			t.Errorf("break of one that does not hold the key: %v", err)
		}
	}
	for i, l := range readers {
		if err := admin.Break(t.Context(), "k", owners[i]); err != nil {
			t.Fatalf("reader %d: %v", i, err)
		}
		storetest.Lost(t, l, wakeUp)
		for _, other := range readers[i+1:] {
			if err := other.Renew(t.Context(), time.Minute); err != nil {
				t.Errorf("after the break of reader %d: %v", i, err)
			}
		}
	}
	release(t, storetest.Granted(t, granted, wakeUp).Lease)
	release(t, storetest.Granted(t, parked, wakeUp).Lease)
}

// One batch renews leases of both modes, and reports those that have ended.
func TestBatchOfBothModes(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	b, admin := opened(t, s.url()), opened(t, s.url())
	var batch []backend.Renewal
	for i := range 6 {
		r := req("k", time.Minute)
		if r.Shared = i > 0; !r.Shared {
			r.Key = "other"
		}
		batch = append(batch, backend.Renewal{Lease: acquire(t, b, r), TTL: time.Hour})
		if i == 3 {
			if err := admin.Break(t.Context(), r.Key, r.Owner); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, err := range b.RenewBatch(t.Context(), batch) {
		if (err != nil) != (i == 3) || i == 3 && !errors.Is(err, backend.ErrLost) {
			t.Errorf("lease %d: %v", i, err)
		}
	}
	for i, r := range batch {
		if i != 3 {
			release(t, r.Lease)
		}
	}
}

// A reader whose create got no reply has only one node in the end.
func TestLostCreateOfReader(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	p := newProxy(t, s.Addr)
	b, other := opened(t, s.at(p.Addr)), opened(t, s.url())
	held := acquire(t, other, asReader(req("k", time.Minute)))
	for i := range 8 {
		r := asReader(req("k", time.Minute))
		r.Wait = i%2 == 0
		met := p.once(opCreate, func() (bool, bool) { return i%4 < 2, true })
		l := acquire(t, b, r)
		<-met
		mine := slices.DeleteFunc(places(t, c, b, "k"), func(p place) bool { return p.owner() != r.Owner })
		if len(mine) != 1 || mine[0].mode != shared {
			t.Fatalf("round %d: nodes %+v, want one shared", i, mine)
		}
		release(t, l)
	}
	release(t, held)
	until(t, soon, "nothing is left", func() bool { return len(places(t, c, b, "k")) == 0 })
}
