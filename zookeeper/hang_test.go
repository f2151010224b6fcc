package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// If a server accepts connections but never replies, all calls return when their context ends, or within their timeout.
// (Z8)
func TestSilentServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, ctxFor := range []time.Duration{200 * time.Millisecond, time.Minute} {
		var err error
		what := fmt.Sprint("open with a context of ", ctxFor)
		storetest.Within(t, min(ctxFor, openTimeout)+maxHandshake*3/4, what, func() {
			ctx, cancel := context.WithTimeout(t.Context(), ctxFor)
			defer cancel()
			if _, err = openURL(ctx, "zookeeper://u:hunter2@"+l.Addr().String()); err == nil {
				t.Fatal("opened")
			}
		})
		if ctxFor < time.Second && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("open: %v, want the context's error", err)
		}
		if ctxFor > openTimeout {
			isUnavailable(t, "open", err)
		}
	}

	s := on(t, usual)
	p := newProxy(t, s.Addr)
	const timeout = 4 * time.Second
	b, err := openNew(t, []string{p.Addr}, &Options{Chroot: s.chroot, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	held := acquire(t, b, req("k", time.Minute))
	p.set(func(p *proxy) { p.silent = true })
	for _, c := range []struct {
		what string
		call func(ctx context.Context) error
	}{
		{"Acquire", func(ctx context.Context) error { _, err := b.Acquire(ctx, req("a", time.Minute)); return err }},
		{"Acquire busy", func(ctx context.Context) error { _, err := b.Acquire(ctx, waiting("k", time.Minute)); return err }},
		{"Inspect", func(ctx context.Context) error { _, err := b.Inspect(ctx, "k"); return err }},
		{"Renew", func(ctx context.Context) error { return held.Renew(ctx, time.Minute) }},
		// Last: as far as the holder knows, the request may have arrived, so the deadline is then at most a second away.
		{"Renew moving", func(ctx context.Context) error { return held.Renew(ctx, time.Second) }},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		begun := time.Now()
		err := c.call(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, backend.ErrHeld) {
			t.Errorf("%s: %v, want the context's error", c.what, err)
		}
		if took := time.Since(begun); took > timeout*3/4 {
			t.Errorf("%s with a context of 200ms took %v", c.what, took)
		}
	}
	begun := time.Now()
	if err := held.Release(t.Context()); err == nil {
		t.Error("released")
	}
	if took := time.Since(begun); took > 3*timeout {
		t.Errorf("release took %v", took)
	}
	begun = time.Now()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 3*timeout {
		t.Errorf("close took %v", took)
	}
	if _, err := b.Acquire(t.Context(), req("k", time.Minute)); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("acquire after close: %v", err)
	}
}

// If a member hangs, the client switches to another member, and keeps its leases.
func TestLeavesHungMember(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "members of an ensemble are frozen")
	list := servers.ZooKeeperEnsemble(t, 3, longSessions)
	b := opened(t, "zookeeper://"+addresses(list))
	l := acquire(t, b, req("k", time.Hour)) // outlives a long election
	for range 2 {
		s, _ := l.(lease).n.sessions()
		s.mu.Lock()
		addr := s.connection.RemoteAddr().String()
		s.mu.Unlock()
		for _, m := range list {
			if m.Addr != addr {
				continue
			}
			m.Freeze()
			begun := time.Now()
			until(t, 6*soon, "the client works again", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				return l.Renew(ctx, time.Hour) == nil
			})
			t.Logf("works again after %v", time.Since(begun))
			m.Thaw()
			servers.GatherZooKeeper(t, list)
		}
	}
	release(t, l)
}

// If one of two servers hangs, opening and new sessions still succeed in time, although about half of them try that
// server first. On a busy machine, the other server may be too slow for a few of them.
func TestNewSessionLeavesHungServer(t *testing.T) {
	t.Parallel()
	hung, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never replies
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	s := on(t, lasting)
	list := []string{hung.Addr().String(), s.Addr}
	slow := 0
	for range 6 {
		begun := time.Now()
		b, err := openNew(t, list, &Options{Chroot: s.chroot})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took >= 2*maxHandshake {
			if slow++; slow > 2 {
				t.Errorf("opened after %v", took)
			}
		}
		// each TTL needs its own session
		for _, ttl := range []time.Duration{8 * time.Second, 15 * time.Second, 25 * time.Second} {
			begun := time.Now()
			l, err := b.Acquire(t.Context(), req(ttl.String(), ttl))
			if errors.Is(err, backend.ErrUnavailable) && slow < 2 {
				slow++
				t.Logf("TTL %v: after %v: %v", ttl, time.Since(begun), err)
				continue
			}
			if err != nil {
				t.Errorf("TTL %v: after %v: %v", ttl, time.Since(begun), err)
				continue
			}
			release(t, l)
		}
		if n := len(b.classes()); n < 3 {
			t.Errorf("%d sessions for three TTLs", n)
		}
		_ = b.Close()
	}
}

// Over a slow link, a new session does not time out at every server first, because the servers share the timeout of a
// request.
func TestNewSessionOverSlowLink(t *testing.T) {
	t.Parallel()
	s := on(t, lasting)
	const delay = 700 * time.Millisecond // of each reply
	var list []string
	for range 3 {
		p := newProxy(t, s.Addr)
		p.set(func(p *proxy) { p.delay = delay })
		list = append(list, p.Addr)
	}
	storetest.ThreeTries(t, func() error {
		b, err := openNew(t, list, &Options{Chroot: s.chroot, Timeout: 4 * time.Second})
		if err != nil {
			return err
		}
		defer b.Close()
		for _, ttl := range []time.Duration{10 * time.Second, 25 * time.Second} {
			l, err := b.Acquire(t.Context(), req(backend.NewOwner(), ttl))
			if err != nil {
				return fmt.Errorf("a TTL of %v: %w", ttl, err)
			}
			release(t, l)
		}
		return nil
	})
}

// A refused attempt deletes its node before it returns. It does not wait for that for longer than its context.
func TestRefusedAttemptEndsWithContext(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	c := raw(t, s.Addr)
	p := newProxy(t, s.Addr)
	const timeout = 8 * time.Second
	b, err := openNew(t, []string{p.Addr}, &Options{Chroot: s.chroot, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l := acquire(t, b, req("k", time.Minute))
	refused := func(within time.Duration) (took time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		begun := time.Now()
		a := newAttempt(b, req("k", time.Minute))
		if _, err := a.tryPlace(ctx); !errors.Is(err, backend.ErrHeld) { // as if the key had just been free
			t.Errorf("attempt: %v, want ErrHeld", err)
		}
		return time.Since(begun)
	}
	refused(soon)
	if q := places(t, c, b, "k"); len(q) != 1 {
		t.Errorf("places %v behind an attempt that was refused", q)
	}
	pass := p.swallow(opDelete)
	// The attempt is refused by then, even if the machine stands still for a moment.
	const within = 2 * time.Second
	if took := refused(within); took > timeout*3/4 {
		t.Errorf("an attempt with a context of %v took %v", within, took)
	}
	pass()
	until(t, 3*soon, "its place is gone", func() bool { return len(places(t, c, b, "k")) == 1 })
	release(t, l)
}

// If an attempt uses an idle session that is ending, for example after a pause of the process, it continues in another
// session. First its connection breaks, and then the session proves to have expired. An attempt that does not wait
// notices this when it reads the queue, one that waits when it creates its node.
func TestTryOutlivesIdleSession(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	y := new(spy)
	var dialing sync.Mutex // prevents another connection until the session has expired
	b, err := openNew(t, []string{s.Addr}, &Options{
		Chroot: s.chroot, Timeout: 4 * soon,
		Dial: func(network, address string, timeout time.Duration) (net.Conn, error) {
			dialing.Lock()
			defer dialing.Unlock()
			return y.dial(network, address, timeout)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for i := range 20 {
		next, noticing := req("k", time.Minute), int32(opChildren)
		if i%2 == 1 {
			next, noticing = waiting("k", time.Minute), opCreate
		}
		l := acquire(t, b, req("k", time.Minute))
		sess, _ := l.(lease).n.sessions()
		release(t, l)
		sess.mu.Lock()
		w := sess.connection
		sess.mu.Unlock()
		var once sync.Once
		expire := func(op int32, _ []byte) {
			if op != noticing {
				return
			}
			once.Do(func() {
				dialing.Lock()
				_ = w.Conn.Close()
				go func() {
					defer dialing.Unlock()
					for ended := false; !ended; time.Sleep(100 * time.Microsecond) {
						sess.mu.Lock()
						ended = !sess.connected
						sess.mu.Unlock()
					}
					time.Sleep(time.Millisecond) // sleeps: a moment between the break and the expiry
					sess.end(errExpired)
				}()
			})
		}
		y.frame.Store(&expire)
		l, err := b.Acquire(t.Context(), next)
		y.frame.Store(nil)
		if err != nil {
			t.Errorf("a free key, waiting %v: %v", next.Wait, err)
			continue
		}
		release(t, l)
	}
}

// If a session may have expired while a lease of the session is being released, the client does not send heartbeats in
// a tight loop.
func TestReleaseInSilenceDoesNotSpin(t *testing.T) {
	t.Parallel()
	s := on(t, usual)
	p := newProxy(t, s.Addr)
	b := opened(t, s.at(p.Addr)+"?session_timeout=3s")
	l := acquire(t, b, req("k", time.Hour))
	var signs atomic.Int64
	p.set(func(p *proxy) {
		p.request = func(op int32) (forward, cut bool) {
			if op == opExists {
				signs.Add(1)
			}
			return op != opMulti && op != opDelete, false
		}
	})
	time.Sleep(time.Until(l.Deadline()) - b.limits.heartbeat(b.limits.longest)) // sleeps: until near the deadline
	released := make(chan struct{})
	go func() {
		defer close(released)
		_ = l.Release(context.Background())
	}()
	time.Sleep(time.Second) // sleeps: the period over which signs of life are counted
	if n := signs.Load(); n > 100 {
		t.Errorf("%d signs of life in %v", n, b.limits.longest)
	}
	p.set(func(p *proxy) { p.request = nil })
	p.Cut()
	<-released
}
