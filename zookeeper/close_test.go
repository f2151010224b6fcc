package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// An attempt that Close meets just before its grant fails, and leaves nothing behind: its session is not left to expire, as if it
// had a lease.
func TestCloseMeetsGrant(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	b := opened(t, s.url())
	r := req("k", time.Minute)
	a := &attempt{b: b, r: r, ttl: r.TTL, class: b.limits.session(r.TTL), begun: time.Now()}
	sess, err := b.enter(a.class)
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(b, r)
	n.s = sess
	_, sent, err := sess.create(t.Context(), n, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.keep(sess, n); err != nil { // the attempt is about to ask for the lease
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- b.Close() }()
	until(t, soon, "leases are closed", b.leases.Closed)
	select {
	case err := <-closed:
		t.Fatalf("Close does not wait for an attempt: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if _, err := b.enter(a.class); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("entered while Close waits for those that are in: %v", err)
	}
	if _, err := a.grant(t.Context(), sess, n, sent); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("grant: %v, want ErrClosed", err)
	}
	b.leave(sess)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	until(t, sess.class/2, "the key is free", func() bool { return len(places(t, c, b, "k")) == 0 })
}

// A session that ends by itself just before Close, which does not find it among its own any more, has ended when Close returns.
func TestCloseWaitsForSessionThatEnds(t *testing.T) {
	t.Parallel()
	b := opened(t, on(t, usual).url())
	s, err := b.enter(b.limits.longest)
	if err != nil {
		t.Fatal(err)
	}
	b.leave(s)
	b.forget(s) // as die does, before it ends the library's client
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = b.Close()
	}()
	<-b.leases.Closing().Done()
	select {
	case <-closed:
		t.Error("Close has returned before the session ended")
	case <-time.After(50 * time.Millisecond):
	}
	s.die(errExpired)
	<-closed
	until(t, soon, "the library's client has ended", b.calls.Idle)
	if state := s.conn.State(); state != zk.StateDisconnected {
		t.Errorf("the library's client is %v", state)
	}
}
