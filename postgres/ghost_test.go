package postgres

import (
	"context"
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
