package zookeeper

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// If a server does not answer, the end of an idle session and Close still close all connections, and end all goroutines
// of the library. It would wait for a reply for two thirds of the session's timeout.
func TestCloseLeavesNothingOnHungServer(t *testing.T) {
	t.Parallel()
	for _, longest := range []time.Duration{4 * time.Second, 40 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeServer(4*time.Second, longest)
			b := f.client(t)
			var idle []*session
			for _, class := range []time.Duration{b.limits.shortest, b.limits.longest} {
				s, err := b.checkOut(class)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.whenConnected(t.Context(), time.Now().Add(soon)); err != nil {
					t.Fatal(err)
				}
				b.checkIn(s)
				idle = append(idle, s)
			}
			synctest.Wait() // the sessions that New opened only to learn the limits have ended
			f.set(func(f *fakeServer) { f.silent = true })
			before := f.connections()
			idle[0].end(errIdle)
			time.Sleep(closeTimeout) // sleeps: as long as Close waits
			if n := f.connections(); n != before-1 {
				t.Errorf("sessions up to %v: %d connections after the end of a session, of %d before", longest, n, before)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if n := f.connections(); n != 0 || !b.calls.Idle() {
				t.Errorf("sessions up to %v: %d connections after Close, all ended: %v", longest, n, b.calls.Idle())
			}
		})
	}
}

// When a session has expired, its last connection is closed too.
func TestExpiredSessionClosesConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(4*time.Second, 40*time.Second)
		b := f.client(t)
		defer b.Close()
		s := b.connected(t)
		b.checkIn(s)
		f.set(func(f *fakeServer) { f.expired = true })
		f.cut()
		<-s.ended
		if !errors.Is(s.endReason(), errExpired) {
			t.Fatal(s.endReason())
		}
		time.Sleep(closeTimeout) // sleeps: as long as Close waits
		if n := f.connections(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
	})
}

// A request whose connection breaks while Close waits for the server's reply keeps no goroutine of the library blocked.
// The library may send three replies to its caller then, and has room for two.
func TestBrokenConnectionDuringCloseBlocksNothing(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	for range 24 { // the library sends the request in half of the cases, and its caller returns early in half of those
		p := newProxy(t, s.Addr)
		var broken atomic.Bool
		b, err := openNew(t, []string{p.Addr}, &Options{Chroot: s.chroot, Timeout: 4 * soon,
			Dial: func(network, address string, timeout time.Duration) (net.Conn, error) {
				c, err := net.DialTimeout(network, address, timeout)
				return &breakable{c, &broken}, err
			}})
		if err != nil {
			t.Fatal(err)
		}
		sess, err := b.checkOut(b.limits.longest)
		if err != nil {
			t.Fatal(err)
		}
		b.checkIn(sess)
		if _, err := sess.whenConnected(t.Context(), time.Now().Add(soon)); err != nil {
			t.Fatal(err)
		}
		const opClose = -11
		closing := p.once(opClose, func() (forward, cut bool) { return false, false })
		sess.end(errIdle)
		<-closing
		broken.Store(true)
		_, _, _ = sess.conn.Exists("/")
		_ = sess.connection.Conn.Close()
		until(t, soon, "the library's client has ended", b.calls.Idle)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A breakable connection fails to write while broken is set.
type breakable struct {
	net.Conn
	broken *atomic.Bool
}

func (c *breakable) Write(p []byte) (int, error) {
	if c.broken.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}
