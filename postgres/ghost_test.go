package postgres

import (
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
