package zookeeper

import (
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

// A waiting reader is woken by the node that it watches, which belongs to the nearest writer. The release of another
// reader does not wake it.
func TestReaderWatchesNearestWriter(t *testing.T) {
	t.Parallel()
	s := alone(t)
	c := raw(t, s.Addr)
	b, f := counted(t, s)
	other := opened(t, s.url())
	other.watchAfter = time.Hour
	early := acquire(t, other, asReader(req("k", countedTTL)))
	late := acquire(t, other, asReader(req("k", countedTTL)))
	w1 := storetest.QueueUp(t, other, waiting("k", countedTTL), 1)
	w2 := storetest.QueueUp(t, other, waiting("k", countedTTL), 2)
	var parked <-chan storetest.Outcome
	got := f.during(func() {
		parked = storetest.Start(t.Context(), b, asReader(waiting("k", countedTTL)))
		until(t, soon, "the reader watches", func() bool { _, w := counts(t, c, s.Addr, b, "k"); return w == 3 })
	})
	if want := "children 1 getData 1 create 1 "; got != want {
		t.Errorf("a parked reader: %s, want %s", got, want)
	}
	got = f.during(func() {
		release(t, early)
		release(t, late)
		release(t, storetest.Granted(t, w1, wakeUp).Lease)
		second := storetest.Granted(t, w2, wakeUp)
		release(t, second.Lease)
		release(t, storetest.Granted(t, parked, wakeUp).Lease)
	})
	// One read of the queue, because two writers were in front of the reader when it queued.
	if want := "children 1 delete 1 "; got != want {
		t.Errorf("from the first release on: %s, want %s", got, want)
	}
}

// Shared leases take as many requests as exclusive ones, however many readers hold the key.
func TestRequestsOfReaders(t *testing.T) {
	t.Parallel()
	s := alone(t)
	c := raw(t, s.Addr)
	b, f := counted(t, s)
	other := opened(t, s.url())
	release(t, acquire(t, b, req("k", countedTTL))) // the container and the session exist
	for range 5 {
		acquire(t, other, asReader(req("k", time.Minute)))
	}
	var l backend.Lease
	step := func(what, want string, do func()) {
		t.Helper()
		if got := f.during(do); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	step("try", "children 2 create 1 ", func() { l = acquire(t, b, asReader(req("k", countedTTL))) })
	step("inspect", "children 1 getData 1 ", func() { _, _ = b.Inspect(t.Context(), "k") })
	step("renew", "multi 1 ", func() {
		if err := l.Renew(t.Context(), countedTTL); err != nil {
			t.Fatal(err)
		}
	})
	step("release", "delete 1 ", func() { release(t, l) })
	step("acquire that may wait", "children 1 create 1 ", func() { l = acquire(t, b, asReader(waiting("k", countedTTL))) })
	release(t, l)
	step("an exclusive try", "children 1 ", func() { _, _ = b.Acquire(t.Context(), req("k", countedTTL)) })
	writer := storetest.QueueUp(t, other, waiting("k", time.Minute), 1)
	step("refused", "children 1 ", func() { _, _ = b.Acquire(t.Context(), asReader(req("k", countedTTL))) })
	for _, p := range holdersOf(places(t, c, b, "k")) {
		if err := other.Break(t.Context(), "k", p.owner()); err != nil {
			t.Fatal(err)
		}
	}
	held := storetest.Granted(t, writer, wakeUp).Lease
	var parked <-chan storetest.Outcome
	step("reader until it waits", "children 1 getData 1 create 1 ", func() {
		parked = storetest.Start(t.Context(), b, asReader(waiting("k", countedTTL)))
		until(t, soon, "the reader watches", func() bool {
			sess := b.onlySession(t)
			sess.mu.Lock()
			defer sess.mu.Unlock()
			for _, w := range sess.watches {
				if w.armed {
					return true
				}
			}
			return false
		})
	})
	step("hand-off to a reader", "", func() { release(t, held); l = storetest.Granted(t, parked, wakeUp).Lease })
	release(t, l)
}
