package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// The server's timers use its wall clock, as Guarantees.EnforcedBy and EarlyLoss state. If the clock steps back, the
// key of a frozen holder stays taken for longer, by at most the step. The key is never free early.
func TestServerClockBack(t *testing.T) {
	t.Parallel()
	const ttl, step = 2 * time.Second, 4 * time.Second
	for mode, params := range variants {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := servers.Postgres(t)
			stepClock := clockOf(t, s)
			b := opened(t, s.PostgresURL())
			saysWallClock(t, b)
			var took time.Duration
			for range 2 { // a server that gets no processor time may be late once, but not twice
				frozen := startChild(t, s.PostgresURL()+params, "k", ttl, exclusiveChild)
				frozen.says("held")
				frozen.freeze()
				begun := time.Now()
				stepClock(-step)
				l := granted(t, startAcquire(context.Background(), b, waiting("k", time.Minute)), ttl+step+soon).Lease
				took = time.Since(begun)
				t.Logf("free after %v, of a TTL of %v and a step of %v", took, ttl, step)
				release(t, l)
				if took <= ttl+step+maxLate {
					break
				}
			}
			if took < ttl-ttl/4 || took > ttl+step+maxLate {
				t.Errorf("free after %v", took)
			}
		})
	}
}

// A step forward can end a live lease before its deadline: an alarm that the server set for an earlier request checks
// the clock when it fires. The holder is notified at once, as of any end of its session.
func TestServerClockForward(t *testing.T) {
	// not parallel: while other tests run, the server sets the alarm late
	const ttl, step, tries = 3 * time.Second, time.Hour, 10
	s := servers.Postgres(t)
	stepClock := clockOf(t, s)
	a, b := opened(t, s.PostgresURL()), opened(t, s.PostgresURL())
	saysWallClock(t, a)
	var early time.Duration
	for n := 0; early < ttl/4 && n < tries; n++ { // a busy machine may set its alarms late
		l := acquire(t, a, waiting("k", ttl))
		next := startAcquire(context.Background(), b, waiting("k", time.Minute))
		queued(t, a, "k", 1)
		time.Sleep(ttl / 2) // sleeps: the server's alarm fires ttl/2 after the renewal, which restores the full ttl
		if err := l.Renew(context.Background(), ttl); errors.Is(err, backend.ErrLost) {
			release(t, granted(t, next, ttl+soon).Lease) // the machine stalled
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		stepClock(step)
		lost(t, l, ttl+soon)
		early = time.Until(l.Deadline())
		t.Logf("lost %v before its deadline", early)
		release(t, granted(t, next, ttl+soon).Lease)
	}
	if early < ttl/4 {
		t.Errorf("what Guarantees warn of did not happen")
	}
	l := acquire(t, a, req("k", ttl)) // locks still work after the step
	if err := l.Renew(context.Background(), ttl); err != nil {
		t.Error(err)
	}
	release(t, l)
}

func saysWallClock(t *testing.T, b *Backend) {
	t.Helper()
	g := b.Guarantees()
	if !strings.Contains(g.EnforcedBy, "wall clock") ||
		!strings.Contains(g.EarlyLoss, "step forward of the server's wall clock") ||
		!strings.Contains(g.EarlyLoss, "step back") {
		t.Errorf("Guarantees do not tell of the clock: enforced by %q, early loss %q", g.EnforcedBy, g.EarlyLoss)
	}
}

func clockOf(t *testing.T, s *servers.Server) (stepClock func(time.Duration)) {
	t.Helper()
	if stepClock = s.StepClock(); stepClock == nil {
		t.Skip("no clock to step in this server")
	}
	return stepClock
}
