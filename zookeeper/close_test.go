package zookeeper

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// If Close begins just before the grant of an attempt, the attempt fails and leaves nothing behind. Its session is
// closed, and not left to expire like a session with a lease.
func TestCloseMeetsGrant(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	b := opened(t, s.url())
	a := newAttempt(b, req("k", time.Minute))
	if err := b.leases.Enter(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := a.enterQueue(t.Context()); err != nil {
		t.Fatal(err)
	}
	sess := a.s
	if err := sess.addNode(a.n); err != nil { // as grant does before it begins the lease
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
	if _, err := b.checkOut(a.class); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("entered while Close waits for those that are in: %v", err)
	}
	if _, err := a.grant(t.Context()); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("grant: %v, want ErrClosed", err)
	}
	a.withdraw()
	b.leases.Leave()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	until(t, sess.class/2, "the key is free", func() bool { return len(places(t, c, b, "k")) == 0 })
}

// If a session is ending by itself when Close begins, Close waits for its end, although the session is no longer in
// b.sessions.
func TestCloseWaitsForSessionThatEnds(t *testing.T) {
	t.Parallel()
	b := opened(t, on(t, usual).url())
	s, err := b.checkOut(b.limits.longest)
	if err != nil {
		t.Fatal(err)
	}
	b.checkIn(s)
	b.mu.Lock()
	delete(b.sessions, s.class) // as end does, before the library's client ends
	b.mu.Unlock()
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
	s.end(errExpired)
	<-closed
	until(t, soon, "the library's client has ended", b.calls.Idle)
	if state := s.conn.State(); state != zk.StateDisconnected {
		t.Errorf("the library's client is %v", state)
	}
}
