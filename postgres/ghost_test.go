package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// A path that resets a connection may leave the session behind it, which has carried the request out: the attempt that is made
// again must not find the key held by the one before.
func TestResetAttemptLeavesNoGhost(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := dialed(t, s.PostgresURL())
	for mode, params := range bothModes {
		p := newProxy(t, s.Addr)
		b := opened(t, s.via(p.Addr)+params)
		release(t, acquire(t, b, req(mode, time.Minute)))
		rest(t, b)
		p.set(func(p *proxy) { p.reset = true })
		l := acquire(t, b, req(mode, time.Minute))
		p.set(func(p *proxy) {
			if p.reset {
				t.Errorf("%s: no connection was reset", mode)
			}
		})
		release(t, l)
		if n := locks(t, c); n != 0 {
			t.Errorf("%s: %d locks after release", mode, n)
		}
	}
}

// A release of which the server gets a part leaves the session with the lock, and no timer runs while the server waits for the rest.
func TestReleaseLeavesNoGhost(t *testing.T) {
	t.Parallel()
	for mode, params := range bothModes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s, p, b := proxied(t, params+"&lock_timeout=1s")
			c := dialed(t, s.PostgresURL())
			l := acquire(t, b, req("k", time.Minute))
			p.set(func(p *proxy) { p.tail = 1 })
			if err := l.Release(context.Background()); err == nil {
				t.Error("released by a part of a request")
			}
			until(t, soon, "no lock is left", func() bool { return locks(t, c) == 0 })
		})
	}
}

// An attempt that is not made again, because its connection was new or its time is over, leaves nothing behind either: its caller
// gets an error, and the session is ended in the background, as soon as the server can be reached.
func TestFailedAttemptLeavesNoGhost(t *testing.T) {
	t.Parallel()
	const short = "&lock_timeout=1s"
	attempt := func(t *testing.T, b *Backend, wait bool, within time.Duration) (granted bool) {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		r := req("k", time.Minute)
		r.Wait = wait
		l, err := b.Acquire(ctx, r)
		if err == nil {
			release(t, l)
		}
		return err == nil
	}
	for mode, params := range bothModes {
		for _, wait := range []bool{false, true} {
			run := func(name string, f func(t *testing.T, p *proxy, b *Backend)) {
				t.Run(fmt.Sprintf("%s/%s/wait=%v", name, mode, wait), func(t *testing.T) {
					t.Parallel()
					s, p, b := proxied(t, params+short)
					c := dialed(t, s.PostgresURL())
					release(t, acquire(t, b, req("other", time.Minute)))
					rest(t, b)
					f(t, p, b)
					until(t, 2*soon, "no lock is left", func() bool { return locks(t, c) == 0 })
				})
			}
			run("new", func(t *testing.T, p *proxy, b *Backend) {
				b.pool.mu.Lock()
				for s := range b.pool.all {
					s.answered.Store(false)
				}
				b.pool.mu.Unlock()
				p.set(func(p *proxy) { p.reset = true })
				if attempt(t, b, wait, 2*soon) && !wait {
					t.Error("granted without an answer")
				}
			})
			run("late", func(t *testing.T, p *proxy, b *Backend) {
				p.set(func(p *proxy) { p.hole = true })
				if attempt(t, b, wait, 1500*time.Millisecond) {
					t.Error("granted without an answer")
				}
			})
		}
	}
}

// A transaction that gets no token is ended, although the server may not hear of the end of its connection.
func TestFailedTokenLeavesNoGhost(t *testing.T) {
	t.Parallel()
	const most = 4
	s, p, b := proxied(t, fmt.Sprintf("&lock_mode=transaction&lock_max_leases=%d", most))
	c := dialed(t, s.PostgresURL())
	var lent []*session
	for range most { // there is one more, which leaves none for the token
		other, err := b.pool.checkOut(context.Background(), new(order))
		if err != nil {
			t.Fatal(err)
		}
		lent = append(lent, other)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := startAcquire(ctx, b, req("k", time.Minute))
	until(t, soon, "the transaction has the lock", func() bool { return locks(t, c) == 1 })
	p.set(func(p *proxy) { p.tail = 1 }) // of the message that ends the connection
	cancel()
	if o := <-done; o.Err == nil {
		t.Error("granted without a token")
	}
	until(t, soon, "no lock is left", func() bool { return locks(t, c) == 0 })
	for _, other := range lent {
		b.pool.giveBack(other)
	}
}
