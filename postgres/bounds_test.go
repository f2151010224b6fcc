package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/storetest"
)

// proxied opens a Backend that connects through a proxy.
func proxied(t *testing.T, params string) (database, *proxy, *Backend) {
	t.Helper()
	s := shared(t)
	p := newProxy(t, s.Addr)
	return s, p, opened(t, s.via(p.Addr)+params)
}

// brief is a URL parameter for a short timeout, which a request still meets if the machine stands still for a second.
const brief = "&timeout=2s"

// rest waits until the connections, which must carry no leases, send nothing more: each has no idle timeout and is
// watched.
func rest(t *testing.T, b *Backend) {
	t.Helper()
	until(t, soon, "all connections are at rest", func() bool {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		for s := range b.pool.all {
			if s.timeout != 0 || !s.isWatched() {
				return false
			}
		}
		return true
	})
}

// unanswered calls do while the proxy drops all replies, and returns do's error. do must return.
func unanswered(t *testing.T, p *proxy, do func() error) error {
	t.Helper()
	p.set(func(p *proxy) { p.mute = true })
	defer p.set(func(p *proxy) { p.mute = false })
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		if err == nil {
			t.Fatal("no error without an answer")
		}
		return err
	case <-time.After(4 * soon):
		t.Fatalf("no end within %v", 4*soon)
		panic("unreachable")
	}
}

// If a request gets no reply, its outcome is unknown, so the attempt is not repeated. A repetition could find the key
// held by its own first attempt, and would take the request's time limit again for each connection.
func TestUnansweredIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	for _, r := range []backend.Request{req("k", time.Minute), waiting("k", time.Minute)} {
		_, p, b := proxied(t, brief)
		release(t, acquire(t, b, req("k", time.Minute)))
		rest(t, b)
		err := unanswered(t, p, func() error {
			_, err := b.Acquire(context.Background(), r)
			return err
		})
		if !errors.Is(err, errUnanswered) {
			t.Errorf("wait %v: %v, want %v", r.Wait, err, errUnanswered)
		}
	}
}

// While a server is silent, requests that need not wait for a key do not stand in line behind each other's logins.
func TestLineOfSilentServer(t *testing.T) {
	t.Parallel()
	const timeout, requests = time.Second, 60 // fifteen times as many as may connect at a time
	_, p, b := proxied(t, fmt.Sprintf("&timeout=%v&lock_max_leases=%d", timeout, leastLeases))
	p.set(func(p *proxy) { p.silent = true })
	begun := time.Now()
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() {
			var err error
			if i%4 == 0 {
				_, err = b.Inspect(context.Background(), "k")
			} else {
				_, err = b.Acquire(context.Background(), req(backend.NewOwner(), time.Minute))
			}
			if !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("a silent server: %v, want ErrUnavailable", err)
			}
		})
	}
	all.Wait()
	const most = 2*logins*timeout + soon // in line, and for a login
	if took := time.Since(begun); took > most {
		t.Errorf("%d requests took %v, want at most %v", requests, took, most)
	}
	p.set(func(p *proxy) { p.silent = false })
}

// A server that does not reply to a dial, or falls silent after a login, holds up a call no longer than a silent login.
func TestSilentConnect(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for what, silence := range map[string]func(b *Backend, p *proxy){
		"dial": func(b *Backend, p *proxy) {
			b.config.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done() // as if a firewall dropped all packets
				return nil, ctx.Err()
			}
		},
		"after the login": func(_ *Backend, p *proxy) {
			p.set(func(p *proxy) { p.mute, p.syncs, p.muteAt = false, 0, 1 })
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, s.Addr)
			b := opened(t, s.via(p.Addr)+brief)
			held := acquire(t, b, req(what, time.Minute)) // uses the only connection
			dial := b.config.DialFunc
			storetest.Within(t, b.options.loginLimit()+soon/2, "an attempt", func() {
				silence(b, p)
				_, err := b.Acquire(context.Background(), req("k", time.Minute))
				if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v, want ErrUnavailable", err)
				}
			})
			b.config.DialFunc = dial
			p.set(func(p *proxy) { p.mute, p.muteAt = false, 0 })
			release(t, held)
		})
	}
}

// A timeout of the store itself is not reported as the end of the caller's context.
func TestUnansweredInspect(t *testing.T) {
	t.Parallel()
	_, p, b := proxied(t, brief)
	release(t, acquire(t, b, req("k", time.Minute)))
	rest(t, b)
	err := unanswered(t, p, func() error {
		_, err := b.Inspect(context.Background(), "k")
		return err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// A wait in the queue has no time limit. The renewal after a long wait has one.
func TestUnansweredLateRenewal(t *testing.T) {
	t.Parallel()
	s, p, b := proxied(t, brief)
	a := opened(t, s.PostgresURL())
	const ttl = 20 * time.Second
	held := acquire(t, a, req("k", time.Minute))
	release(t, acquire(t, b, req("other", ttl)))
	rest(t, b)
	done := startAcquire(context.Background(), b, waiting("k", ttl))
	queued(t, a, "k", 1)
	p.set(func(p *proxy) { p.syncs, p.muteAt = 0, 1 }) // the next request is the renewal
	time.Sleep(ttl/lateGrant + 100*time.Millisecond)   // sleeps: the wait that makes a grant late
	release(t, held)
	until(t, soon, "the answer to the renewal is lost", func() (lost bool) {
		p.set(func(p *proxy) { lost = p.muted > 0 })
		return lost
	})
	p.set(func(p *proxy) { p.mute, p.muteAt = false, 0 })
	release(t, granted(t, done, 4*soon).Lease)
}

// If a lost lease cannot be released in time, its connection is closed, and the lease no longer counts toward
// MaxLeases.
func TestUnansweredGivingUp(t *testing.T) {
	t.Parallel()
	_, p, b := proxied(t, brief)
	l := acquire(t, b, req("k", 3*time.Second))
	p.set(func(p *proxy) { p.mute = true })
	lost(t, l, 2*soon)
	until(t, 4*soon, "the connection is given up, and no lease is counted", func() bool {
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		return l.(*kit.Life).Data.(*checkout).s.dead && b.pool.leases() == 0
	})
	p.set(func(p *proxy) { p.mute = false })
}

// If a lease is lost while its session's turn is taken, its lock is free in the end, however long the turn lasts.
// Another lease of the client is not affected.
func TestGivingUpWaitsForTheTurn(t *testing.T) {
	t.Parallel()
	s := shared(t)
	b := opened(t, s.PostgresURL()+brief)
	c := dialed(t, s.PostgresURL())
	const ttl = 4 * time.Second
	kept, over := acquire(t, b, req("kept", ttl)), acquire(t, b, req("over", ttl))
	if err := kept.Renew(context.Background(), time.Minute); err != nil {
		t.Fatal(err)
	}
	shared := over.(*kit.Life).Data.(*checkout).s
	if err := shared.acquireTurn(context.Background()); err != nil {
		t.Fatal(err)
	}
	lost(t, over, 2*soon)
	time.Sleep(2 * b.options.Timeout) // sleeps: longer than a request may wait for its turn
	shared.releaseTurn()
	until(t, soon, "the lock is given up", func() bool { return locks(t, c) == 1 })
	if err := kept.Renew(context.Background(), time.Minute); err != nil {
		t.Error(err)
	}
}

// The renewal after a long wait sets the deadline, which counts from before the renewal was sent, not from its reply.
func TestLateRenewalCountsFromSending(t *testing.T) {
	t.Parallel()
	s := shared(t)
	p := storetest.NewProxy(t, s.Addr)
	a, b := opened(t, s.PostgresURL()), opened(t, s.via(p.Addr))
	const ttl, late = 10 * time.Second, time.Second
	held := acquire(t, a, req("k", time.Minute))
	done := startAcquire(context.Background(), b, waiting("k", ttl))
	queued(t, a, "k", 1)
	time.Sleep(ttl/lateGrant + 100*time.Millisecond) // sleeps: the wait that makes a grant late
	p.Set(func(p *storetest.Proxy) { p.Delay = late })
	release(t, held)
	o := granted(t, done, 2*late+soon)
	p.Set(func(p *storetest.Proxy) { p.Delay = 0 })
	if over := o.Lease.Deadline().Sub(backend.Deadline(o.At.Add(-late), ttl)); over > 0 {
		t.Errorf("the deadline is %v later than the TTL allows, of a renewal that was sent %v before its reply", over, late)
	}
	release(t, o.Lease)
}

// A late release or renewal of a lease that has ended does not touch the next lease of its session, even on the same
// key.
func TestLateRequestSparesNextOfSession(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := shared(t)
	b, other := opened(t, s.PostgresURL()), opened(t, s.PostgresURL())
	first := acquire(t, b, req("k", time.Minute)).(*kit.Life)
	release(t, first)
	r := req("k", time.Minute)
	next := acquire(t, b, r)
	if next.(*kit.Life).Data.(*checkout).s != first.Data.(*checkout).s {
		t.Fatal("another session: the test proves nothing")
	}
	if _, err := (requests{b}).RenewLease(ctx, first, time.Hour); !errors.Is(err, backend.ErrLost) {
		t.Errorf("a late renewal: %v", err)
	}
	if err := (requests{b}).ReleaseLease(ctx, first); !errors.Is(err, backend.ErrLost) {
		t.Errorf("a late release: %v", err)
	}
	if h, err := other.Inspect(ctx, "k"); err != nil || h.Owner != r.Owner || h.TTL > time.Minute {
		t.Errorf("after late requests: %+v, %v", h, err)
	}
	release(t, next)
}
