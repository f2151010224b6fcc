package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

// If an unanswered move arrives late, the node does not end up in a session that the client has forgotten and closes as
// unused. So nobody else is granted the key while the lease is live.
func TestLateMoveKeepsOneHolder(t *testing.T) {
	t.Parallel()
	const ttl = 6 * time.Second
	s := on(t, usual)
	for _, back := range []bool{true, false} {
		t.Run(fmt.Sprint("back ", back), func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, s.Addr)
			b, other := opened(t, s.at(p.Addr)), opened(t, s.url())
			b.mu.Lock()
			b.idle = 100 * time.Millisecond
			b.mu.Unlock()
			key := fmt.Sprint("k", back)
			l := acquire(t, b, req(key, ttl))
			next := ttl // a TTL of the first session, or of a third
			if !back {
				next = 2 * ttl / 3
			}
			met, pass := p.hold(opMulti)
			t.Cleanup(pass)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { // while the move is on its way
				<-met
				cancel()
			}()
			if err := l.Renew(ctx, time.Hour); !errors.Is(err, context.Canceled) {
				t.Fatalf("renew: %v, want the context's error", err)
			}
			late := time.AfterFunc(200*time.Millisecond, pass)
			defer late.Stop()
			if err := l.Renew(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			renewed := time.Now()
			for ; time.Since(renewed) < 2*time.Second; time.Sleep(20 * time.Millisecond) {
				o, err := other.Acquire(t.Context(), req(key, ttl))
				if err == nil && !time.Now().Before(l.Deadline()) { // the machine stood still
					releaseOrExpire(t, o)
					break
				}
				if err == nil {
					t.Fatalf("granted to another %v before the deadline: token %d", time.Until(l.Deadline()), o.Token())
				}
				if !errors.Is(err, backend.ErrHeld) {
					t.Fatal(err)
				}
			}
			releaseOrExpire(t, l)
			until(t, soon, "all sessions are closed", func() bool { return len(b.classes()) == 0 })
		})
	}
}

// aged sets the age of the session's last sign of life, and of everything that was proved, to by.
func (s *session) aged(by time.Duration) {
	c := &s.contact
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now().Add(-by)
	c.signs = []sign{{at, at.Add(c.hop)}}
	c.until, c.lastWrite = backend.Deadline(at, c.timeout), at.Add(c.hop)
}

// A deadline is never later than the time until which the node's session is certain to be kept. This holds if a move to
// a session without recent contact gets no reply. It also holds if a renewal fails because the session is not certain
// to be kept for long enough.
func TestFailedRenewalPromisesNoMore(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	for _, test := range []struct{ first, next, age time.Duration }{
		{2 * time.Second, 4 * time.Second, 2 * time.Second},
		{time.Hour, 8 * time.Second, 7500 * time.Millisecond}, // with one second more, the lease would be over
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			storetest.ThreeTries(t, func() error {
				p := newProxy(t, s.Addr)
				b := opened(t, s.at(p.Addr))
				to, err := b.checkOut(b.limits.sessionTimeout(test.next))
				if err != nil {
					t.Fatal(err)
				}
				defer b.checkIn(to)
				l := acquire(t, b, req(backend.NewOwner(), test.first))
				if err := to.prove(t.Context()); err != nil {
					t.Fatal(err)
				}
				if from, _ := l.(lease).n.sessions(); from != to {
					p.set(func(p *proxy) { p.delay = 300 * time.Millisecond })
				}
				to.aged(test.age)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				if err := l.Renew(ctx, test.next); !errors.Is(err, context.DeadlineExceeded) {
					return fmt.Errorf("renew: %v, want the context's error", err)
				}
				from, maybe := l.(lease).n.sessions()
				if late := l.Deadline().Sub(to.contact.keptUntil()); late > 0 && (from == to || maybe == to) {
					t.Errorf("the deadline is %v behind the time until which the session is kept", late)
				}
				if time.Until(l.Deadline()) < 0 {
					return errors.New("the lease is over")
				}
				return nil
			})
		})
	}
}

// A lease that is released while it moves keeps no session in use, whichever of the two requests is first.
func TestReleaseWhileMoving(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	p := newProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr))
	b.mu.Lock()
	b.idle = 50 * time.Millisecond
	b.mu.Unlock()
	release(t, acquire(t, b, req("k", time.Hour))) // in the session that was opened first
	for round := range 30 {
		key := fmt.Sprint("k", round)
		l := acquire(t, b, req(key, 4*time.Second))
		renewed := make(chan struct{})
		go func() {
			_ = l.Renew(context.Background(), time.Hour)
			close(renewed)
		}()
		time.Sleep(time.Duration(round) * 100 * time.Microsecond) // sleeps: another moment of the move in each round
		if err := l.Release(t.Context()); err != nil && !errors.Is(err, backend.ErrLost) {
			t.Fatal(err)
		}
		<-renewed
		if q := places(t, c, b, key); len(q) != 0 {
			t.Errorf("round %d: left behind: %v", round, q)
		}
	}
	until(t, soon, "all sessions are closed", func() bool { return len(b.classes()) == 0 })

	l := acquire(t, b, req("last", 4*time.Second))
	to, err := b.checkOut(b.limits.longest)
	if err != nil {
		t.Fatal(err)
	}
	release(t, l)
	if err := l.(lease).n.move(t.Context(), to, time.Time{}); !errors.Is(err, backend.ErrLost) {
		t.Errorf("a move after the release: %v", err)
	}
	b.checkIn(to)
	until(t, soon, "all sessions are closed", func() bool { return len(b.classes()) == 0 })
}

// If a release gets no reply for longer than the lease would have lived, the lease does not keep its session in use.
// The session is closed as unused.
func TestUnansweredReleaseFreesSession(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	p := newProxy(t, s.Addr)
	b, err := openNew(t, []string{p.Addr}, &Options{Chroot: s.chroot})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.mu.Lock()
	b.idle = 50 * time.Millisecond
	b.mu.Unlock()
	const ttl = 2 * defaultTimeout
	release(t, acquire(t, b, req("k", time.Hour))) // in the session that was opened first
	l := acquire(t, b, req("k", ttl))
	pass := p.swallow(opDelete)
	if err := l.Release(t.Context()); err == nil || errors.Is(err, backend.ErrLost) {
		t.Fatalf("release: %v, want an unknown outcome", err)
	}
	time.Sleep(ttl + 300*time.Millisecond) // sleeps: the TTL must pass, so that only the session still deletes the node
	pass()
	until(t, soon, "the node is gone", func() bool { return len(places(t, c, b, "k")) == 0 })
	until(t, soon, "all sessions are closed", func() bool { return len(b.classes()) == 0 })
}

// While a lease is moving to a longer session, it does not depend on the contact of that session.
func TestMovingLeaseIsNotLookedAfterYet(t *testing.T) {
	t.Parallel()
	b := opened(t, on(t, usual).url())
	l := acquire(t, b, req("k", 4*time.Second))
	to, err := b.checkOut(b.limits.longest)
	if err != nil {
		t.Fatal(err)
	}
	defer b.checkIn(to)
	if _, err := to.whenConnected(t.Context(), time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	n := l.(lease).n
	if err := to.addNode(n); err != nil {
		t.Fatal(err)
	}
	to.aged(2 * b.limits.longest)
	to.checkLongLeases()
	select {
	case <-l.Lost():
		t.Error("lost by what another session has not proved")
	default:
	}
	to.removeNode(n)
	release(t, l)
}

// If the reply to the delete of a Break is lost, the repeated delete finds no node, and Break still succeeds.
func TestLostReplyOfBreak(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	p := newProxy(t, s.Addr)
	holder, b := opened(t, s.url()), opened(t, s.at(p.Addr))
	r := req("k", time.Minute)
	l := acquire(t, holder, r)
	met := p.once(opDelete, func() (forward, cut bool) { return true, true })
	if err := b.Break(t.Context(), "k", r.Owner); err != nil {
		t.Errorf("break whose reply was lost: %v", err)
	}
	select {
	case <-met:
	default:
		t.Fatal("no delete was sent: the test proves nothing")
	}
	if err := l.Release(t.Context()); !errors.Is(err, backend.ErrLost) {
		t.Errorf("release after the break: %v", err)
	}
}
