package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

// removedWhile deletes the holder's node after age, and returns the time until the holder is notified.
func removedWhile(t *testing.T, admin *Backend, l backend.Lease, key string, age time.Duration) time.Duration {
	t.Helper()
	time.Sleep(age) // sleeps: the age of the lease
	if err := evict(t.Context(), admin, key); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	storetest.Lost(t, l, soon)
	return time.Since(begun)
}

// If another client deletes a holder's node, the holder is notified at once, without a renewal. This holds for every
// age of the lease, in every session, and after a reconnect.
func TestRemovedHolderIsNotifiedAtOnce(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	b, admin := opened(t, s.url()), opened(t, s.url())
	const most = time.Second // far less than the TTL
	for _, c := range []struct {
		what   string
		ttl    time.Duration
		age    time.Duration
		before func(l backend.Lease)
	}{
		{"old", time.Hour, 3 * watchAfter, func(backend.Lease) {}},
		{"young", time.Hour, 0, func(backend.Lease) {}},
		{"moved", 8 * time.Second, 3 * watchAfter, func(l backend.Lease) {
			if err := l.Renew(t.Context(), time.Hour); err != nil {
				t.Error(err)
			}
		}},
		{"just moved", 8 * time.Second, 0, func(l backend.Lease) {
			time.Sleep(2 * watchAfter) // sleeps: the age of the lease
			if err := l.Renew(t.Context(), time.Hour); err != nil {
				t.Error(err)
			}
		}},
		{"reconnected", time.Hour, watchAfter, func(l backend.Lease) {
			time.Sleep(2 * watchAfter) // sleeps: the age of the lease
			cut(b)
			if err := l.Renew(t.Context(), time.Hour); err != nil {
				t.Error(err)
			}
		}},
	} {
		var all []time.Duration
		for i := range 5 {
			took := 2 * soon
			for attempt := 0; took > most && attempt < 3; attempt++ { // the machine may stand still meanwhile
				key := fmt.Sprint(c.what, i, attempt)
				l := acquire(t, b, req(key, c.ttl))
				c.before(l)
				took = min(took, removedWhile(t, admin, l, key, c.age))
				if err := l.Release(context.Background()); !errors.Is(err, backend.ErrLost) {
					t.Errorf("%s: release: %v", c.what, err)
				}
			}
			if all = append(all, took); took > most {
				t.Errorf("%s: notified %v after the removal", c.what, took)
			}
		}
		slices.Sort(all)
		t.Logf("%s: notified after %v", c.what, all)
	}
}

// A lease that is moved, renewed and released is not reported as lost, and leaves no watch behind.
func TestOwnChangesAreNoRemoval(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	b := opened(t, s.url())
rounds:
	for i := range 5 {
		l := acquire(t, b, req(fmt.Sprint("k", i), 2*time.Second))
		lost := l.Lost()
		for _, ttl := range []time.Duration{2 * time.Second, 4 * time.Second, time.Hour} {
			time.Sleep(watchAfter * 3 / 2) // sleeps: the lease must be old enough to be watched
			err := l.Renew(t.Context(), ttl)
			// On a busy machine, a connection may break. This loop ends at the latest with the lease.
			for errors.Is(err, backend.ErrUnavailable) {
				err = l.Renew(t.Context(), ttl)
			}
			if expired(l, err) {
				continue rounds
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(watchAfter * 3 / 2) // sleeps: the lease must be old enough to be watched
		release(t, l)
		select {
		case <-lost:
			t.Errorf("round %d: Lost is closed", i)
		case <-time.After(watchAfter):
		}
	}
	for _, class := range b.classes() {
		sess, err := b.checkOut(class)
		if err != nil {
			t.Fatal(err)
		}
		until(t, soon, "no watch is left", func() bool {
			sess.mu.Lock()
			defer sess.mu.Unlock()
			return len(sess.watches) == 0
		})
		b.checkIn(sess)
	}
}

// The watch costs no read if a lease is released soon, and one read if the lease lives longer.
func TestWatchCostsOneRead(t *testing.T) {
	t.Parallel()
	s := on(t, lasting)
	b, f := counted(t, s)
	b.watchAfter = watchAfter
	release(t, acquire(t, b, waiting("k", countedTTL)))
	const cycles = 50
	begun := time.Now()
	got := f.during(func() {
		for range cycles {
			release(t, acquire(t, b, waiting("k", countedTTL)))
		}
	})
	f.mu.Lock()
	reads := f.n[opGetData]
	f.mu.Unlock()
	if took := time.Since(begun); reads > int(took/watchAfter) {
		t.Errorf("%d cycles in %v: %s", cycles, took, got)
	}
	var l backend.Lease
	got = f.during(func() {
		l = acquire(t, b, waiting("l", countedTTL)) // a new key
		until(t, soon, "the read", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.n[opGetData] > 0
		})
		time.Sleep(4 * watchAfter) // sleeps: the period in which nothing else may be read
	})
	if got != "children 2 getData 1 createContainer 1 create 2 " {
		t.Errorf("a lease that lives: %s", got)
	}
	if got := f.during(func() { release(t, l) }); got != "delete 1 " {
		t.Errorf("its release: %s", got)
	}
}

// While a waiter's read sets a watch on a node, another watch of the session may report a change of that node. The read
// may then find the node missing. The waiter is still granted the key.
func TestNodeChangesWhileWatchIsSet(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	p := newProxy(t, s.Addr)
	b, other := opened(t, s.at(p.Addr)), opened(t, s.url())
	for i, next := range []backend.Request{waiting("w", time.Minute), asReader(waiting("r", time.Minute))} {
		l := acquire(t, other, req(next.Key, time.Minute))
		path := b.dir(next.Key) + "/" + places(t, c, b, next.Key)[0].name
		met, pass := p.hold(opGetData)
		t.Cleanup(pass)
		done := storetest.Start(t.Context(), b, next)
		<-met
		b.onlySession(t).notifyWatchers(path, i == 0)
		release(t, l)
		pass()
		release(t, storetest.Granted(t, done, wakeUp).Lease)
	}
}
