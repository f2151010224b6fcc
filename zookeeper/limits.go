package zookeeper

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/anylock/lock/backend"
)

// limits are the session timeouts that the servers grant, found at opening.
type limits struct {
	tick     time.Duration // tickTime of the servers, as far as a client can tell
	shortest time.Duration // minSessionTimeout
	longest  time.Duration // maxSessionTimeout, or the shorter timeout that the application requests
}

const (
	defaultTick = 2 * time.Second // of zoo_sample.cfg and all packages
	ticksLeast  = 2               // of the default minSessionTimeout
	ticksMost   = 20              // of the default maxSessionTimeout

	leastTTL    = 100 * time.Millisecond // a shorter lease would often end before its grant arrives
	granularity = time.Millisecond
	lateSlack   = 250 * time.Millisecond // for requests and timers of a busy machine
)

// defaultLimits are the limits of servers in their default configuration.
func defaultLimits() limits { return limitsOf(ticksLeast*defaultTick, ticksMost*defaultTick, 0) }

// limitsOf returns the limits for the shortest and the longest session that a server grants. If most is not 0, it
// limits the longest. By default both sessions are multiples of the tick; if they were configured, the longer plausible
// tick counts. The tick is rounded up to whole milliseconds, the unit of session timeouts.
func limitsOf(shortest, longest, most time.Duration) limits {
	tick := max(shortest/ticksLeast, min(longest/ticksMost, defaultTick))
	tick = (tick + time.Millisecond - 1).Truncate(time.Millisecond)
	if most > 0 {
		longest = max(shortest, min(longest, most.Truncate(time.Millisecond)))
	}
	return limits{tick: tick, shortest: shortest, longest: longest}
}

// hop returns the longest time that a sign of life may take to reach the leader, which expires sessions. Each half
// tick, servers report to the leader which sessions have shown a sign of life. The other half tick allows for delays.
func (l limits) hop() time.Duration { return l.tick }

// heartbeat returns the longest interval between signs of life of a session.
func (l limits) heartbeat(session time.Duration) time.Duration { return max(l.tick/4, session/16) }

// longestTTL returns the longest TTL for which a session keeps a lease if the client is silent after the grant. The
// leader may have received the last sign of life a hop and a heartbeat before the request. The other heartbeat allows
// for delays, and for the session's own margin.
func (l limits) longestTTL(session time.Duration) time.Duration {
	return session - l.hop() - 2*l.heartbeat(session)
}

// validate rejects sessions that are too short to keep any lease without contact.
func (l limits) validate() error {
	if l.longestTTL(l.longest) >= leastTTL {
		return nil
	}
	least := l.longest
	for l.longestTTL(least) < leastTTL {
		least += time.Millisecond
	}
	return fmt.Errorf("%w: a session timeout of %v is too short for servers whose tick is %v: at least %v is needed",
		backend.ErrInvalid, l.longest, l.tick, least)
}

// sessionTimeout returns the timeout of the session for leases of ttl. It is one of a few classes: the shortest that is
// long enough, or else the longest.
func (l limits) sessionTimeout(ttl time.Duration) time.Duration {
	for s := l.shortest; s < l.longest; {
		if l.longestTTL(s) >= ttl {
			return s
		}
		step := l.tick // to the next class; a sixteenth to an eighth of the timeout if that is more
		for step < s/16 {
			step *= 2
		}
		s += step - s%step
	}
	return l.longest
}

// expiryDelay returns how much later than its timeout the leader may expire a session, counted from the last sign of
// life. The report to the leader takes up to half a tick, and the leader rounds up to a tick.
func (l limits) expiryDelay() time.Duration { return 3 * l.tick / 2 }

func (l limits) guarantees() backend.Guarantees {
	return backend.Guarantees{
		MinTTL:      max(leastTTL, l.longestTTL(l.shortest)).Round(granularity),
		Granularity: granularity,
		MaxSilence:  l.longestTTL(l.longest),
		MaxLate:     l.longest + l.expiryDelay() + lateSlack,
		ReportsLoss: true,
		EnforcedBy:  "session timeout at the leader",
		Fencing:     backend.FencingRestart,
		FIFO:        true,
		Wake:        backend.WakePush,
		Consistency: backend.Linearizable,
		Reach:       backend.ReachNetwork,
		Shared:      true,
	}
}

// openTimeout limits how long New waits for the ensemble, in findLimits and again in prepare.
const openTimeout = 5 * time.Second

// findLimits finds the limits of the ensemble. It opens two sessions: it requests the shortest possible timeout, and
// then the longest.
func (b *Backend) findLimits(ctx context.Context) error {
	end := time.Now().Add(openTimeout)
	shortest, err := b.grantedTimeout(ctx, end, time.Millisecond)
	if err != nil {
		return err
	}
	longest, err := b.grantedTimeout(ctx, end, math.MaxInt32*time.Millisecond)
	if err != nil {
		return err
	}
	b.limits = limitsOf(shortest, longest, b.options.SessionTimeout)
	b.guarantees = b.limits.guarantees()
	return b.limits.validate()
}

// grantedTimeout opens a session, closes it, and returns the timeout that was negotiated. It fails at end.
func (b *Backend) grantedTimeout(ctx context.Context, end time.Time, requested time.Duration) (time.Duration, error) {
	s := newSession(b, requested)
	s.probing = true
	if err := s.open(); err != nil {
		return 0, err
	}
	if _, err := s.whenConnected(ctx, end); err != nil {
		s.end(errLeftToExpire)
		return 0, err
	}
	defer s.end(errIdle)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout, nil
}
