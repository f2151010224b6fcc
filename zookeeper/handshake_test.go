package zookeeper

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/internal/storetest"
)

// A handshake keeps its session alive even if the reply is lost. A client whose leases are lost must not repeat
// handshakes for the session.
func TestUnansweredHandshakesKeepNothing(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	l, err := link.New(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close) // after the client
	b := opened(t, s.at(l.Addrs()[0])+"?session_timeout=3s")
	const ttl = 1500 * time.Millisecond // longer than the client waits for a silent server
	first, second := acquire(t, b, req("first", ttl)), acquire(t, b, req("second", ttl))
	path := first.(lease).n.path()
	l.Drop(conformance.FromStore)
	<-first.Lost()
	<-second.Lost()
	if seen, _ := gone(t, c, path, 20*time.Second); seen.Sub(first.Deadline()) > b.Guarantees().MaxLate {
		t.Errorf("the node is there %v after the deadline, more than MaxLate", seen.Sub(first.Deadline()))
	}
	l.Heal()
	for end := time.Now().Add(soon); ; time.Sleep(tick) {
		again, err := b.Acquire(t.Context(), req("first", ttl))
		if err == nil {
			_ = again.Release(t.Context())
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the client is of no use %v after the link has healed: %v", soon, err)
		}
	}
}

const tick = 10 * time.Millisecond

// A recorder is a Dialer. It records the handshakes of its connections, and their requests that set watches.
type recorder struct {
	mu                  sync.Mutex
	handshakes, watches [][]byte
}

type recorded struct {
	net.Conn
	r     *recorder
	begun bool
}

func (r *recorder) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c, err := net.DialTimeout(network, address, timeout)
	return &recorded{Conn: c, r: r}, err
}

func (c *recorded) Write(p []byte) (int, error) {
	const opAt = 8
	c.r.mu.Lock()
	switch {
	case !c.begun:
		c.begun = true
		c.r.handshakes = append(c.r.handshakes, append([]byte(nil), p...))
	case be.Uint32(p[opAt:]) == opSetWatch:
		c.r.watches = append(c.r.watches, append([]byte(nil), p...))
	}
	c.r.mu.Unlock()
	return c.Conn.Write(p)
}

// A new connection sends a zxid of the session in its handshake, and sets the watches as of the same zxid.
func TestReconnectSendsLatestZxid(t *testing.T) {
	t.Parallel()
	const handshakeAt, watchesAt = 8, 12
	s := on(t, usual)
	r := new(recorder)
	b, err := openNew(t, []string{s.Addr}, &Options{Chroot: s.chroot, Timeout: 4 * soon, Dial: r.dial})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	held := acquire(t, b, req("k", time.Minute))
	waited := make(chan error, 1)
	go func() {
		w := req("k", time.Minute)
		w.Wait = true
		l, err := b.Acquire(t.Context(), w)
		if err == nil {
			err = l.Release(t.Context())
		}
		waited <- err
	}()
	for end := time.Now().Add(soon); ; time.Sleep(tick) {
		h, err := b.Inspect(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if h.Waiters == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the waiter does not queue")
		}
	}
	until(t, soon, "the watch is set", func() bool { return b.onlySession(t).isArmed() })
	cut(b)
	var handshake, watches uint64
	for end := time.Now().Add(soon); watches == 0; time.Sleep(tick) {
		r.mu.Lock()
		if n := len(r.watches); n > 0 {
			watches = be.Uint64(r.watches[n-1][watchesAt:])
			handshake = be.Uint64(r.handshakes[len(r.handshakes)-1][handshakeAt:])
		}
		r.mu.Unlock()
		if time.Now().After(end) {
			t.Fatal("no watches were set on the new connection")
		}
	}
	if handshake == 0 || watches != handshake {
		t.Errorf("the handshake has zxid %#x, the watches of %#x", handshake, watches)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
}

// isArmed reports whether the client knows that the server has one of its watches.
func (s *session) isArmed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		if w.armed {
			return true
		}
	}
	return false
}

// A broken connection causes no errors: requests are repeated on the next connection.
func TestBrokenConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	b := opened(t, s.url())
	held := acquire(t, b, req("held", time.Minute))
	for range 60 {
		cut(b)
		release(t, acquire(t, b, req("k", time.Minute)))
		cut(b)
		if err := held.Renew(t.Context(), time.Minute); err != nil {
			t.Fatalf("Renew: %v", err)
		}
		cut(b)
		if _, err := b.Inspect(t.Context(), "held"); err != nil {
			t.Fatalf("Inspect: %v", err)
		}
	}
}

// A waiter that has not written for long keeps its place if a server does not answer the first handshake after a break,
// for example during an election. The same holds if its session had a lease that was lost and whose node is deleted.
func TestUnansweredHandshakeKeepsPlace(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	s := on(t, usual)
	c := raw(t, s.Addr)
	other := opened(t, s.url())
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("lost ", lost), func(t *testing.T) {
			t.Parallel()
			storetest.ThreeTries(t, func() error {
				p := newProxy(t, s.Addr)
				b := opened(t, s.at(p.Addr))
				if lost {
					l := acquire(t, b, req(backend.NewOwner(), ttl))
					<-l.Lost()
				}
				key := backend.NewOwner()
				held := acquire(t, other, req(key, time.Hour))
				done := storetest.Start(t.Context(), b, waiting(key, ttl))
				until(t, soon, "the waiter queues", func() bool { return len(places(t, c, b, key)) == 2 })
				place := places(t, c, b, key)[1].name
				b.mu.Lock()
				sess := b.sessions[b.limits.sessionTimeout(ttl)]
				b.mu.Unlock()
				old := sess.contact.keptUntil().Add(100 * time.Millisecond)
				time.Sleep(time.Until(old)) // sleeps: the session is no longer certain to exist
				p.set(func(p *proxy) { p.silent = true })
				p.Cut()
				time.Sleep(sess.handshakeLimit() / 2) // sleeps: a slow handshake
				p.set(func(p *proxy) { p.silent = false })
				until(t, soon, "the client is back", func() bool {
					sess.mu.Lock()
					defer sess.mu.Unlock()
					return sess.connected || sess.err != nil
				})
				var moved error
				if q := places(t, c, b, key); sess.hasEnded() || len(q) != 2 || q[1].name != place {
					moved = fmt.Errorf("places %v, want %s in the second; the session: %v", q, place, sess.endReason())
				}
				release(t, held)
				o := <-done
				if o.Err == nil {
					releaseOrExpire(t, o.Lease)
				}
				return errors.Join(moved, o.Err)
			})
		})
	}
}
