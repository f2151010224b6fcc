package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// gone polls until a node does not exist. It returns when the node was last seen, and when it was first missing.
func gone(t testing.TB, c *zk.Conn, path string, within time.Duration) (seen, missed time.Time) {
	t.Helper()
	for end := time.Now().Add(within); ; time.Sleep(4 * time.Millisecond) {
		asked := time.Now()
		ok, _, err := c.Exists(path)
		switch {
		case err != nil:
			t.Fatal(err)
		case !ok:
			return seen, time.Now()
		case time.Now().After(end):
			t.Fatalf("%s is still there after %v", path, within)
		}
		seen = asked
	}
}

// If the link freezes, the deadline of a lease passes before the server deletes its node, and the holder is notified.
// This holds for every TTL, with and without renewals. (Z3)
func TestFrozenLinkLosesBeforeTheServerDoes(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	for _, ttl := range []time.Duration{500 * time.Millisecond, 2 * time.Second, time.Hour} {
		for _, renew := range []bool{false, true} {
			t.Run(fmt.Sprint(ttl, " renew ", renew), func(t *testing.T) {
				t.Parallel()
				p := newProxy(t, s.Addr)
				b := opened(t, s.at(p.Addr)+"?session_timeout=3s")
				key := fmt.Sprint("k", ttl, renew)
				l := acquireShort(t, b, key, ttl)
				for end := time.Now().Add(time.Second); time.Now().Before(end) && (renew || ttl > time.Second); {
					time.Sleep(50 * time.Millisecond) // sleeps: the interval between renewals
					if renew {
						l = renewedOrNew(t, b, l, key, ttl)
					}
				}
				path := l.(lease).n.path()
				p.set(func(p *proxy) { p.silent = true })
				frozen := time.Now()
				if renew {
					go func() { _ = l.Renew(context.Background(), ttl) }()
				}
				notified := make(chan time.Time, 1)
				go func() {
					<-l.Lost()
					notified <- time.Now()
				}()
				deadline := l.Deadline()
				_, missed := gone(t, c, path, 10*time.Second)
				select {
				case at := <-notified:
					t.Logf("notified %v before the node went, %v after the freeze", missed.Sub(at), at.Sub(frozen))
				case <-time.After(500 * time.Millisecond): // both may happen while the machine stands still
					t.Errorf("the server has deleted the node and Lost is not closed")
				}
				if missed.Before(l.Deadline()) || missed.Before(deadline) {
					t.Errorf("the node went %v before the deadline", deadline.Sub(missed))
				}
			})
		}
	}
}

// acquireShort acquires a lease so short that it may end before its grant arrives if the machine stands still. It makes
// up to three attempts.
func acquireShort(t *testing.T, b *Backend, key string, ttl time.Duration) backend.Lease {
	t.Helper()
	for attempt := 1; ; attempt++ {
		l, err := b.Acquire(t.Context(), waiting(key, ttl))
		if err == nil {
			return l
		}
		if !errors.Is(err, backend.ErrLost) || attempt == 3 {
			t.Fatal(err)
		}
	}
}

// renewedOrNew renews l, or returns another lease if the machine stood still until its deadline.
func renewedOrNew(t *testing.T, b *Backend, l backend.Lease, key string, ttl time.Duration) backend.Lease {
	t.Helper()
	deadline := l.Deadline()
	err := l.Renew(t.Context(), ttl)
	if errors.Is(err, backend.ErrLost) && !time.Now().Before(deadline) {
		return acquireShort(t, b, key, ttl)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// When a session has expired, its leases are lost permanently, and do not affect the next session. (Z4)
func TestOldLeaseSparesNewSession(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	p := newProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr)+"?session_timeout=3s")
	old := acquire(t, b, req("k", time.Hour))
	id := b.onlySession(t).id
	p.set(func(p *proxy) { p.silent = true })
	gone(t, c, old.(lease).n.path(), 10*time.Second)
	p.Cut()
	p.set(func(p *proxy) { p.silent = false })
	var fresh backend.Lease
	until(t, soon, "the client works again", func() bool {
		var err error
		fresh, err = b.Acquire(t.Context(), req("k", time.Hour))
		return err == nil
	})
	if now := b.onlySession(t).id; now == id {
		t.Fatal("the session has not expired: nothing is tested")
	}
	select {
	case <-old.Lost():
	default:
		t.Error("Lost of the old lease is open")
	}
	for range 2 {
		if err := old.Renew(t.Context(), time.Hour); !errors.Is(err, backend.ErrLost) {
			t.Errorf("renew by the old lease: %v", err)
		}
		if err := old.Release(t.Context()); !errors.Is(err, backend.ErrLost) {
			t.Errorf("release by the old lease: %v", err)
		}
	}
	time.Sleep(aWhile) // sleeps: the period in which a clean-up could end the new lease
	if q := places(t, c, b, "k"); len(q) != 1 {
		t.Errorf("places %v, want the new lease's", q)
	}
	if fresh.Token() <= old.Token() {
		t.Errorf("token %d after %d", fresh.Token(), old.Token())
	}
	if err := fresh.Renew(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	release(t, fresh)
}

// If a session expires, requests that the library has queued are never sent in the next session.
func TestQueuedRequestEndsWithItsSession(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	p := newProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr)+"?session_timeout=3s")
	l := acquire(t, b, req("k", time.Hour))
	sess := b.onlySession(t)
	path := l.(lease).n.path()
	p.Refuse(true)
	p.Cut()
	done := make(chan error, 1)
	go func() { // without the checks of this package
		_, err := sess.conn.Create(b.dir("k")+"/late", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		done <- err
	}()
	gone(t, c, path, 10*time.Second)
	p.Refuse(false)
	select {
	case err := <-done:
		if err == nil {
			t.Error("a request of the old session was carried out")
		}
	case <-time.After(2 * soon):
		t.Error("a request of the old session hangs")
	}
	until(t, soon, "the lease is lost", func() bool {
		select {
		case <-l.Lost():
			return true
		default:
			return false
		}
	})
	if ok, _, err := c.Exists(b.dir("k") + "/late"); ok || err != nil {
		t.Errorf("its node is there: %v, %v", ok, err)
	}
}

// A waiter whose node is deleted fails. It does not mistake the deletion for its turn. (Z6)
func TestDeletedWaiterFails(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	b := opened(t, s.url())
	l := acquire(t, b, req("k", time.Minute))
	var errs []chan error
	for i := range 3 {
		done := make(chan error, 1)
		errs = append(errs, done)
		go func() {
			l, err := b.Acquire(context.Background(), waiting("k", time.Minute))
			if err == nil {
				err = l.Release(context.Background())
			}
			done <- err
		}()
		until(t, soon, "the waiter queues", func() bool { return len(places(t, c, b, "k")) == i+2 })
	}
	q := places(t, c, b, "k")
	for _, i := range []int{1, 2} { // the waiter that watches the holder, and the next one
		if err := c.Delete(b.dir("k")+"/"+q[i].name, -1); err != nil {
			t.Fatal(err)
		}
	}
	// The deletion of the first waiter's node wakes the second. The first waiter reads the queue when its watch fires, or
	// after recheck.
	for _, i := range []int{1, 0} {
		select {
		case err := <-errs[i]:
			if !errors.Is(err, errDeleted) {
				t.Errorf("waiter %d whose node was deleted: %v", i, err)
			}
		case <-time.After(2*recheck + soon):
			t.Errorf("waiter %d whose node was deleted waits on", i)
		}
	}
	select {
	case err := <-errs[2]:
		t.Errorf("the third waiter has ended: %v", err)
	default:
	}
	if q := places(t, c, b, "k"); len(q) != 2 {
		t.Errorf("places %v, want the holder's and the third waiter's", q)
	}
	release(t, l)
	if err := <-errs[2]; err != nil {
		t.Errorf("the third waiter: %v", err)
	}
}

// Tokens increase even if the container of a key is deleted, as servers do with an empty container, and numbers start
// again. (Z7)
func TestTokensSurviveTheParent(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	b := opened(t, s.url())
	var last uint64
	for i := range 3 {
		for range 3 {
			l := acquire(t, b, req("k", time.Minute))
			if l.Token() <= last {
				t.Fatalf("token %d after %d", l.Token(), last)
			}
			last = l.Token()
			if n := places(t, c, b, "k")[0].number; i > 0 && n > 2 {
				t.Fatalf("number %d: the parent is the old one", n)
			}
			release(t, l)
		}
		if err := c.Delete(b.dir("k"), -1); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := c.Get(b.dir("k")); !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("get of the parent: %v", err)
	}
}

// The servers delete the container of a key when it is empty. This does not affect attempts that begin at that moment.
func TestServersRemoveEmptyParents(t *testing.T) {
	t.Parallel()
	s := on(t, tidy)
	c := raw(t, s.Addr)
	b := opened(t, s.url())
	var last uint64
	removed := 0
	for i := range 200 {
		r := req("k", time.Minute)
		r.Wait = i%2 == 0
		l := acquire(t, b, r)
		if l.Token() <= last {
			t.Fatalf("token %d after %d", l.Token(), last)
		}
		last = l.Token()
		if places(t, c, b, "k")[0].number == 0 {
			removed++
		}
		release(t, l)
		time.Sleep(rand.N(10 * time.Millisecond)) // sleeps: the pause in which the server may delete the container
	}
	if removed < 2 {
		t.Error("the parent was never removed")
	}
	t.Logf("the parent was removed %d times", removed)
	until(t, soon, "the parent is gone", func() bool {
		ok, _, err := c.Exists(b.dir("k"))
		return err == nil && !ok
	})
}

// The deadline of a lost lease no longer moves, even if its session lives on and proves its contact again.
func TestLostLeaseIsNotRevived(t *testing.T) {
	t.Parallel()
	b := opened(t, on(t, usual).url())
	l := acquire(t, b, req("k", time.Hour)) // longer than the session: its deadline follows the session
	sess, _ := l.(lease).n.sessions()
	sess.aged(2 * b.limits.longest) // as if the session may have expired
	sess.checkLongLeases()
	<-l.Lost()
	lost := time.Now()
	if err := sess.proveUntil(t.Context(), lost.Add(time.Second), sess.prove); err != nil {
		t.Fatal(err)
	}
	if d := l.Deadline(); d.After(lost) {
		t.Errorf("the deadline is %v after the loss", d.Sub(lost))
	}
}
