package zookeeper

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/storetest"
)

// classes returns the timeouts of the open sessions.
func (b *Backend) classes() (list []time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for class := range b.sessions {
		list = append(list, class)
	}
	slices.Sort(list)
	return list
}

// Leases of one class of TTLs share a session, whose timeout is the class. Unused sessions are closed.
func TestSessionPerClass(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	b := opened(t, s.url())
	var leases []backend.Lease
	for i, ttl := range []time.Duration{
		200 * time.Millisecond, 250 * time.Millisecond, 700 * time.Millisecond, 710 * time.Millisecond, 4 * time.Second,
		time.Minute, time.Hour,
	} {
		l, err := b.Acquire(t.Context(), req(fmt.Sprint("k", i), ttl))
		switch {
		case err == nil:
			leases = append(leases, l)
		case !errors.Is(err, backend.ErrLost): // the shortest leases may have ended
			t.Fatal(err)
		}
	}
	want := []time.Duration{time.Second, 1500 * time.Millisecond, 5500 * time.Millisecond, 10 * time.Second}
	if got := b.classes(); !slices.Equal(got, want) {
		t.Errorf("sessions of %v, want %v", got, want)
	}
	var sessions []*session
	for _, class := range want {
		s, err := b.checkOut(class)
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, s)
		s.mu.Lock()
		if s.timeout != class {
			t.Errorf("asked for %v, negotiated %v", class, s.timeout)
		}
		s.mu.Unlock()
	}
	b.mu.Lock()
	b.idle = 100 * time.Millisecond
	b.mu.Unlock()
	for _, s := range sessions {
		b.checkIn(s)
	}
	for _, l := range leases {
		_ = l.Release(t.Context()) // the shortest leases may have ended
	}
	until(t, soon, "unused sessions are closed", func() bool { return len(b.classes()) == 0 })
	release(t, acquire(t, b, req("k", time.Minute)))
}

// A renewal with a TTL of a longer class moves the node to the session of that class. The node keeps its place and its
// token, and a waiter keeps waiting. A renewal with a TTL of a shorter class does not move the node.
func TestRenewMovesToAnotherSession(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	b, other := opened(t, s.url()), opened(t, s.url())
	l := acquire(t, b, req("k", 3*time.Second))
	token := l.Token()
	name := places(t, c, b, "k")[0].name
	done := make(chan backend.Lease, 1)
	go func() {
		w, err := other.Acquire(t.Context(), waiting("k", time.Minute))
		if err != nil {
			t.Error(err)
		}
		done <- w
	}()
	until(t, soon, "the waiter queues", func() bool { return len(places(t, c, b, "k")) == 2 })
	longest := time.Duration(0)
	for _, ttl := range []time.Duration{6 * time.Second, 3 * time.Second, time.Hour, 3 * time.Second, time.Hour} {
		longest = max(longest, ttl)
		if err := l.Renew(t.Context(), ttl); err != nil {
			t.Fatal(err)
		}
		home, maybe := l.(lease).n.sessions()
		if class := b.limits.sessionTimeout(longest); home.class != class || maybe != nil {
			t.Errorf("renewed to %v the node lives in a session of %v, want %v", ttl, home.class, class)
		}
		q := places(t, c, b, "k")
		_, st, err := c.Get(b.dir("k") + "/" + name)
		if err != nil || len(q) != 2 || q[0].name != name || st.EphemeralOwner != home.id {
			t.Fatalf("renewed to %v: places %v, node %+v, %v", ttl, q, st, err)
		}
		h, err := other.Inspect(t.Context(), "k")
		if err != nil || h.Token != token || l.Token() != token {
			t.Errorf("renewed to %v: token %d, %+v, %v, want %d", ttl, l.Token(), h, err, token)
		}
		select {
		case <-done:
			t.Fatal("the waiter was granted the key")
		case <-time.After(50 * time.Millisecond):
		}
	}
	release(t, l)
	w := <-done
	if w.Token() <= token {
		t.Errorf("token %d after %d", w.Token(), token)
	}
	release(t, w)
	until(t, soon, "nothing is left", func() bool { return len(places(t, c, b, "k")) == 0 })
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		if s.users != 0 || len(s.nodes) != 0 {
			t.Errorf("session of %v: %d users, %d nodes, want none", s.class, s.users, len(s.nodes))
		}
	}
}

// If the reply to a move is lost, the next renewal repeats the move. A release ends the lease in whichever session the
// node is.
func TestLostMove(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	for _, forward := range []bool{false, true} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint("arrived ", forward, " again ", again), func(t *testing.T) {
				p := newProxy(t, s.Addr)
				b := opened(t, s.at(p.Addr))
				key := fmt.Sprint("k", forward, again)
				l := acquire(t, b, req(key, 4*time.Second))
				token := l.Token()
				met := p.once(opMulti, func() (bool, bool) { return forward, true })
				if err := l.Renew(t.Context(), time.Hour); err == nil || errors.Is(err, backend.ErrLost) {
					t.Fatalf("renew: %v, want an unknown outcome", err)
				}
				<-met
				if len(places(t, c, b, key)) != 1 {
					t.Fatal("the place is empty")
				}
				if again {
					until(t, soon, "the renewal works", func() bool { return l.Renew(t.Context(), time.Hour) == nil })
					home, maybe := l.(lease).n.sessions()
					if home.class != b.limits.longest || maybe != nil {
						t.Errorf("it lives in a session of %v", home.class)
					}
					if h, err := b.Inspect(t.Context(), key); err != nil || h.Token != token {
						t.Errorf("inspect: %+v, %v", h, err)
					}
				}
				until(t, soon, "the release works", func() bool { return l.Release(t.Context()) == nil })
				until(t, soon, "nothing is left", func() bool { return len(places(t, c, b, key)) == 0 })
				time.Sleep(aWhile) // sleeps: the period in which a late move could arrive
				if q := places(t, c, b, key); len(q) != 0 {
					t.Errorf("left behind: %v", q)
				}
			})
		}
	}
}

// After Close, the keys of leases stay taken until their sessions expire, and no other keys do.
func TestCloseKeepsHeldKeys(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	b := opened(t, s.url())
	const ttl = 3 * time.Second
	l := acquire(t, b, req("held", ttl))
	release(t, acquire(t, b, req("released", ttl)))
	acquire(t, b, req("other", time.Hour))
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if _, err := b.Acquire(t.Context(), waiting("held", time.Hour)); !errors.Is(err, backend.ErrClosed) {
				t.Errorf("acquire that waits at close: %v", err)
			}
		})
	}
	until(t, soon, "all wait", func() bool { return len(places(t, c, b, "held")) == 6 })
	deadline, begun := l.Deadline(), time.Now()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	for key, n := range map[string]int{"held": 1, "released": 0, "other": 1} {
		if q := places(t, c, b, key); len(q) != n && !(key == "held" && time.Now().After(deadline)) {
			t.Errorf("%s: places %v, want %d", key, q, n)
		}
	}
	_, missed := gone(t, c, l.(lease).n.path(), 2*soon)
	if took := missed.Sub(begun); took < ttl/2 || missed.Before(deadline) {
		t.Errorf("the key was free after %v, %v before the deadline", took, deadline.Sub(missed))
	}
}

// A lease stays live while a renewal moves it over a slow link to another session, even if that session is just being
// opened, or has had no recent proof.
func TestSlowMoveLosesNothing(t *testing.T) {
	t.Parallel()
	const (
		ttl   = 4 * time.Second
		delay = 400 * time.Millisecond
	)
	s := on(t, usual)
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprint("known ", known), func(t *testing.T) {
			t.Parallel()
			storetest.ThreeTries(t, func() error {
				p := newProxy(t, s.Addr)
				b := opened(t, s.at(p.Addr))
				if known {
					release(t, acquire(t, b, req(backend.NewOwner(), time.Hour)))
					time.Sleep(b.limits.longest + 100*time.Millisecond) // sleeps: the session must be unproven for long
				}
				l := acquire(t, b, req(backend.NewOwner(), ttl))
				p.set(func(p *proxy) { p.delay = delay })
				done := make(chan error, 1)
				begun := time.Now()
				go func() { done <- l.Renew(t.Context(), time.Hour) }()
				least := ttl
				for ended := false; !ended; {
					select {
					case err := <-done:
						if ended = true; err != nil {
							return fmt.Errorf("renewed after %v: %w", time.Since(begun), err)
						}
					case <-time.After(time.Millisecond):
					}
					least = min(least, time.Until(l.Deadline()))
				}
				if least < ttl/2-delay {
					return fmt.Errorf("in the %v of the renewal, its deadline was %v away", time.Since(begun), least)
				}
				if home, maybe := l.(lease).n.sessions(); home.class != b.limits.longest || maybe != nil {
					t.Errorf("it lives in a session of %v, maybe in %v", home.class, maybe)
				}
				p.set(func(p *proxy) { p.delay = 0 })
				release(t, l)
				return nil
			})
		})
	}
}

// A session that has ended is not checked out again, even if it is still in b.sessions.
func TestSessionThatIsOverIsNotEntered(t *testing.T) {
	t.Parallel()
	b := opened(t, on(t, usual).url())
	for _, class := range []time.Duration{b.limits.longest, b.limits.shortest} {
		s, err := b.checkOutAny(class)
		if err != nil {
			t.Fatal(err)
		}
		b.checkIn(s)
		s.mu.Lock()
		s.err = errExpired // as end does, which then deletes the session from b.sessions
		close(s.ended)
		s.mu.Unlock()
		for _, enter := range []func(time.Duration) (*session, error){b.checkOutAny, b.checkOut} {
			next, err := enter(class)
			if err != nil || next == s {
				t.Errorf("entered the session that is over, %v", err)
			}
			b.checkIn(next)
		}
		b.mu.Lock()
		if b.sessions[class] == s {
			t.Error("the ended session is still in use")
		}
		b.mu.Unlock()
	}
	release(t, acquire(t, b, req("k", time.Minute)))
}

// A session that has ended refuses requests with the reason, although it was connected until then. Its client, which is
// closed, would fail them with an error that says nothing about the session.
func TestEndedSessionRefusesRequests(t *testing.T) {
	t.Parallel()
	b := &Backend{limits: defaultLimits()}
	for range 50 {
		s := newSession(b, b.limits.longest)
		s.connected = true
		close(s.ready)
		s.end(errExpired)
		if _, err := s.whenConnected(t.Context(), time.Now().Add(soon)); !errors.Is(err, errExpired) {
			t.Fatalf("error %v, want the reason for the end", err)
		}
	}
}
