package memory_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/memory"
)

// sharedBubble runs f in a synctest bubble, with two clients of one store.
func sharedBubble(t *testing.T, f func(t *testing.T, s *memory.Store, a, b *memory.Backend)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memory.NewStore()
		f(t, s, client(t, s), client(t, s))
	})
}

func sharedRequest(ttl time.Duration, wait bool) backend.Request {
	r := request("k", ttl, wait)
	r.Shared = true
	return r
}

func tryShared(b backend.Backend, ttl time.Duration) (backend.Lease, error) {
	return b.Acquire(context.Background(), sharedRequest(ttl, false))
}

func mustShare(t *testing.T, b backend.Backend, ttl time.Duration) backend.Lease {
	t.Helper()
	l, err := tryShared(b, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A queued is a request that waits. Its cancel ends the wait.
type queued struct {
	granted <-chan backend.Lease // closed without a lease if the wait ended with an error
	cancel  context.CancelFunc
}

// wait starts a request that waits, and returns once it is in the queue.
func wait(t *testing.T, b backend.Backend, r backend.Request) queued {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	granted := make(chan backend.Lease, 1)
	go func() {
		defer close(granted)
		if l, err := b.Acquire(ctx, r); err == nil {
			granted <- l
		}
	}()
	synctest.Wait()
	return queued{granted, cancel}
}

// isGranted reports whether the request has a lease by now.
func (q queued) isGranted() bool {
	synctest.Wait()
	return len(q.granted) > 0
}

func wantHeld(t *testing.T, b backend.Backend, readers int, owners ...string) {
	t.Helper()
	h, err := b.Inspect(t.Context(), "k")
	if err != nil || h.Shared != readers || !slices.Contains(owners, h.Owner) {
		t.Errorf("held by %q, %d readers, %v; want %d readers and an owner of %q", h.Owner, h.Shared, err, readers, owners)
	}
}

func releaseAll(t *testing.T, leases ...backend.Lease) {
	t.Helper()
	for _, l := range leases {
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestReadersShareAndExcludeWriters(t *testing.T) {
	sharedBubble(t, func(t *testing.T, s *memory.Store, a, b *memory.Backend) {
		writer := mustTry(t, a, "k", time.Hour)
		var held *backend.HeldError
		if _, err := tryShared(b, time.Hour); !errors.As(err, &held) || held.Holder.Shared != 0 {
			t.Errorf("a reader beside a writer: %v", err)
		}
		releaseAll(t, writer)
		first, second := mustShare(t, a, time.Minute), mustShare(t, b, time.Hour)
		if first.Token() <= writer.Token() || second.Token() <= writer.Token() {
			t.Errorf("tokens %d and %d after a writer's %d", first.Token(), second.Token(), writer.Token())
		}
		if _, err := try(a, "k", time.Hour); !errors.As(err, &held) || held.Holder.Shared != 2 ||
			held.Holder.TTL != time.Hour || held.Holder.Token != second.Token() {
			t.Errorf("a writer beside readers: %v", err)
		}
		if keys, err := b.List(t.Context(), ""); err != nil || !slices.Equal(keys, []string{"k"}) {
			t.Errorf("listed %q, %v", keys, err)
		}
		releaseAll(t, second)
		if _, err := try(b, "k", time.Hour); !errors.As(err, &held) || held.Holder.Shared != 1 {
			t.Errorf("a writer beside the reader that is left: %v", err)
		}
		releaseAll(t, first)
		if last := mustTry(t, b, "k", time.Hour); last.Token() <= max(first.Token(), second.Token()) {
			t.Errorf("a writer's token %d after %d and %d", last.Token(), first.Token(), second.Token())
		}
	})
}

// Consecutive readers enter together, in order of arrival, and no reader overtakes a waiting writer.
func TestQueueOfReadersAndWriters(t *testing.T) {
	sharedBubble(t, func(t *testing.T, s *memory.Store, a, b *memory.Backend) {
		holder := mustShare(t, a, time.Hour)
		firstWriter := wait(t, a, request("k", time.Hour, true))
		readers := []queued{wait(t, b, sharedRequest(time.Hour, true)), wait(t, a, sharedRequest(time.Hour, true))}
		lastWriter := wait(t, b, request("k", time.Hour, true))
		late := wait(t, a, sharedRequest(time.Hour, true))
		if _, err := tryShared(b, time.Hour); !errors.Is(err, backend.ErrHeld) {
			t.Errorf("a reader that does not wait, behind a writer that does: %v", err)
		}
		wantWaiting := func(when string, waiting ...queued) {
			t.Helper()
			for i, q := range waiting {
				if q.isGranted() {
					t.Errorf("%s: waiter %d of the rest has the key", when, i)
				}
			}
		}
		wantWaiting("at first", firstWriter, readers[0], readers[1], lastWriter, late)
		releaseAll(t, holder)
		wantWaiting("after the reader", readers[0], readers[1], lastWriter, late)
		releaseAll(t, <-firstWriter.granted)
		one, two := <-readers[0].granted, <-readers[1].granted
		if two.Token() <= one.Token() {
			t.Errorf("token %d of the first reader, and %d of the second", one.Token(), two.Token())
		}
		wantWaiting("beside readers", lastWriter, late)
		releaseAll(t, two)
		wantWaiting("beside the reader that is left", lastWriter, late)
		releaseAll(t, one)
		releaseAll(t, <-lastWriter.granted)
		releaseAll(t, <-late.granted)
		if s.Len() != 0 {
			t.Error("a key is left")
		}
	})
}

// If a waiting writer is cancelled, or its client is closed, the readers behind it enter at once.
func TestReadersBehindAWriterThatGivesUp(t *testing.T) {
	sharedBubble(t, func(t *testing.T, s *memory.Store, a, b *memory.Backend) {
		for name, end := range map[string]func(writer queued){
			"cancelled": func(writer queued) { writer.cancel() },
			"closed":    func(queued) { b.Close() },
		} {
			holder := mustShare(t, a, time.Hour)
			writer := wait(t, b, request("k", time.Hour, true))
			one, two := wait(t, a, sharedRequest(time.Hour, true)), wait(t, a, sharedRequest(time.Hour, true))
			end(writer)
			if !one.isGranted() || !two.isGranted() {
				t.Fatalf("%s: the readers behind the writer wait", name)
			}
			releaseAll(t, holder, <-one.granted, <-two.granted)
			if b = s.Client(); s.Len() != 0 {
				t.Errorf("%s: a key is left", name)
			}
		}
		b.Close()
	})
}

// Each shared lease ends on its own: the expiry of one does not end another, and the writer waits for the last.
func TestReadersEndAlone(t *testing.T) {
	sharedBubble(t, func(t *testing.T, s *memory.Store, a, b *memory.Backend) {
		short := mustShare(t, a, 10*time.Second)
		long, err := b.Acquire(t.Context(), sharedRequest(time.Minute, false))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if errs := b.RenewBatch(t.Context(), []backend.Renewal{{Lease: long, TTL: time.Minute}}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		writer := wait(t, a, request("k", time.Hour, true))
		time.Sleep(5 * time.Second)
		if h, _ := a.Inspect(t.Context(), "k"); h.Shared != 1 || h.TTL != 55*time.Second {
			t.Errorf("after one expiry: %+v", h)
		}
		if err := short.Renew(t.Context(), time.Hour); !errors.Is(err, backend.ErrLost) {
			t.Errorf("a stale reader's renewal: %v", err)
		}
		if err := short.Release(t.Context()); !errors.Is(err, backend.ErrLost) {
			t.Errorf("a stale reader's release: %v", err)
		}
		time.Sleep(55*time.Second - time.Nanosecond)
		if writer.isGranted() {
			t.Error("the writer does not wait for the reader that was renewed")
		}
		time.Sleep(time.Nanosecond)
		if !writer.isGranted() {
			t.Error("the writer waits for expired readers")
		}
	})
}

func TestBreakOfOneReader(t *testing.T) {
	sharedBubble(t, func(t *testing.T, s *memory.Store, a, b *memory.Backend) {
		one, two := sharedRequest(time.Minute, false), sharedRequest(time.Hour, false)
		kept, err := a.Acquire(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		broken, err := b.Acquire(t.Context(), two)
		if err != nil {
			t.Fatal(err)
		}
		wantHeld(t, a, 2, two.Owner)
		if err := a.Break(t.Context(), "k", two.Owner); err != nil {
			t.Fatal(err)
		}
		wantHeld(t, b, 1, one.Owner)
		if err := broken.Renew(t.Context(), time.Hour); !errors.Is(err, backend.ErrLost) {
			t.Errorf("renewal of the broken lease: %v", err)
		}
		if err := kept.Renew(t.Context(), time.Hour); err != nil {
			t.Errorf("renewal of the other: %v", err)
		}
		if err := a.Break(t.Context(), "k", two.Owner); !errors.Is(err, backend.ErrLost) {
			t.Errorf("a second Break: %v", err)
		}
		writer := wait(t, b, request("k", time.Hour, true))
		if err := a.Break(t.Context(), "k", one.Owner); err != nil || !writer.isGranted() {
			t.Errorf("the writer waits behind broken leases (%v)", err)
		}
	})
}

// A repeated request of the same owner returns the same grant. A lease can be resumed only in its own mode.
func TestOwnReadersAreRecognised(t *testing.T) {
	sharedBubble(t, func(t *testing.T, s *memory.Store, a, b *memory.Backend) {
		r := sharedRequest(time.Minute, false)
		first, err := a.Acquire(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		mustShare(t, b, 30*time.Second)
		wait(t, b, request("k", time.Hour, true)) // does not block the repeated request
		again, err := a.Acquire(t.Context(), r)
		if err != nil || again.Token() != first.Token() {
			t.Errorf("the same request again: %v, %v; want token %d", again, err, first.Token())
		}
		wantHeld(t, a, 2, r.Owner)
		other := r
		other.Shared = false
		if _, err := b.Resume(t.Context(), other); !errors.Is(err, backend.ErrLost) {
			t.Errorf("resumed in the other mode: %v", err)
		}
		if _, err := b.Acquire(t.Context(), other); !errors.Is(err, backend.ErrHeld) {
			t.Errorf("acquired in the other mode: %v", err)
		}
		r.TTL = time.Hour
		resumed, err := b.Resume(t.Context(), r)
		if err != nil || resumed.Token() != first.Token() {
			t.Fatalf("resumed: %v, %v", resumed, err)
		}
		if h, _ := a.Inspect(t.Context(), "k"); h.TTL != time.Hour || h.Owner != r.Owner || h.Shared != 2 {
			t.Errorf("after Resume: %+v", h)
		}
	})
}

// A named store exists while a reader holds one of its keys.
func TestReaderKeepsNamedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, "memory://readers")
		l, err := tryShared(b, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
		other := open(t, "memory://readers")
		if _, err := try(other, "k", time.Minute); !errors.Is(err, backend.ErrHeld) {
			t.Errorf("a writer beside the reader of a closed client: %v", err)
		}
		other.Close()
		<-l.Lost()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := memory.Named(); n != 0 {
			t.Errorf("%d named stores are left", n)
		}
	})
}

// A reader that is cancelled at the moment of the grant either holds its lease or leaves nothing behind at the store.
func TestCancelledReaderLeavesNothing(t *testing.T) {
	s := memory.NewStore()
	b := client(t, s)
	for range 200 {
		held := mustTry(t, b, "k", time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan backend.Lease)
		for range 2 {
			go func() {
				l, _ := b.Acquire(ctx, sharedRequest(time.Minute, true))
				got <- l
			}()
		}
		for h := (backend.Holder{}); h.Waiters < 2; {
			runtime.Gosched()
			h, _ = b.Inspect(t.Context(), "k")
		}
		go cancel()
		releaseAll(t, held)
		for range 2 {
			if l := <-got; l != nil {
				releaseAll(t, l)
			}
		}
		if n := s.Len(); n != 0 {
			t.Fatal("the key is held after its waiters had given up")
		}
	}
}
