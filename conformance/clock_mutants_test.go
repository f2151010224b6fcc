package conformance_test

import (
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// byWallClock is not a bug. With it, leases end by a wall clock, as the Guarantees state.
const byWallClock = "wall clock ends leases"

// clockMutants are bugs that a step of the store's clock triggers.
var clockMutants = []mutant{
	{"step of the clock forward ends leases, and nobody says so", "SteppedClockEndsNoLease"},
	{"step of the clock forward ends readers", "SteppedClockEndsNoLease"},
	{"step of the clock back keeps dead readers", "SteppedClockKeepsNoDeadHolder"},
	{"step of the clock back ends leases", "SteppedClockEndsNoLease"},
	{"step of the clock parks waiters", "SteppedClockEndsNoLease"},
	{"lease that a step of the clock has ended is renewed over the next one", "SteppedClockEndsNoLease"},
	{"EarlyLoss does not mention the wall clock", "SteppedClockEndsNoLease"},
	{"step of the clock back keeps the keys of the dead, and nobody says so", "SteppedClockKeepsNoDeadHolder"},
	{"step of the clock back keeps the keys of the dead for twice as long", "SteppedClockKeepsNoDeadHolder"},
	{"step of the clock stops the timers", "SteppedClockKeepsNoDeadHolder"},
	{"token is the time of the wall clock", "SteppedClockKeepsTokenOrder"},
	{"tokens count anew when the clock goes back", "SteppedClockKeepsTokenOrder"},
}

// obeysWallClock reports whether Guarantees state that a wall clock ends leases.
func (s *server) obeysWallClock() bool {
	return s.is(byWallClock, "step of the clock back ends leases",
		"lease that a step of the clock has ended is renewed over the next one",
		"EarlyLoss does not mention the wall clock", "step of the clock back keeps the keys of the dead for twice as long")
}

func (s *server) clocked(g backend.Guarantees) backend.Guarantees {
	if s.obeysWallClock() {
		g.EnforcedBy, g.EarlyLoss, g.Consistency = "wall clock of the server", "a step forward of its wall clock",
			backend.BestEffort
	}
	if s.is("EarlyLoss does not mention the wall clock") {
		g.EarlyLoss = ""
	}
	return g
}

func (s *server) stepClock(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stepped += d
	for key, e := range s.keys {
		for _, r := range e.readers {
			if d > 0 && s.is("step of the clock forward ends readers") ||
				d < 0 && s.is("step of the clock back keeps dead readers") {
				s.extendReader(key, e, r, r.expires.Add(-d))
			}
		}
		switch {
		case e.owner == "":
			continue
		case s.is("step of the clock back ends leases") && d < 0:
			e.expires = time.Now()
		case s.is("step of the clock back keeps the keys of the dead for twice as long") && d < 0:
			e.expires = e.expires.Add(-3 * d)
		case s.obeysWallClock(),
			s.is("step of the clock forward ends leases, and nobody says so") && d > 0,
			s.is("step of the clock back keeps the keys of the dead, and nobody says so") && d < 0:
			e.expires = e.expires.Add(-d)
		case s.is("step of the clock parks waiters"):
			e.queue = nil
		case s.is("step of the clock stops the timers") && e.timer != nil:
			e.timer.Stop()
			continue
		}
		s.armLocked(key, e)
	}
}

// clockToken returns the token of a bug that depends on the wall clock. ok is false without such a bug.
func (s *server) clockToken() (token uint64, ok bool) {
	switch {
	case s.is("token is the time of the wall clock"):
		return uint64(time.Now().Add(s.stepped).UnixMicro()), true
	case s.is("tokens count anew when the clock goes back") && s.stepped < 0:
		s.nth++
		return uint64(s.nth), true
	}
	return 0, false
}

func TestByWallClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		results, err := conformance.Execute(t.Context(), newServer(byWallClock).harness(),
			conformance.Options{Run: regexp.MustCompile("^(SteppedClock|Guarantees)")})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Status != conformance.Pass {
				t.Errorf("%s: %s: %s", r.Name, r.Status, r.Output)
			}
		}
	})
}
