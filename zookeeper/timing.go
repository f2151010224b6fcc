package zookeeper

import (
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
)

// Limits are what the servers negotiate, found out at opening.
type limits struct {
	tick     time.Duration // tickTime of the servers, as far as a client can tell
	shortest time.Duration // minSessionTimeout
	longest  time.Duration // maxSessionTimeout, or the shorter one that the application asked for
}

const (
	defaultTick = 2 * time.Second // of zoo_sample.cfg and all packages
	ticksLeast  = 2               // of the default minSessionTimeout
	ticksMost   = 20              // of the default maxSessionTimeout
)

// limitsOf works out the limits from the shortest and the longest session that a server grants. The tick shows in both,
// unless one of them was configured apart: then the longer explanation that is plausible counts. It is rounded up to
// whole milliseconds: sessions are asked for in these.
func limitsOf(shortest, longest, most time.Duration) limits {
	tick := max(shortest/ticksLeast, min(longest/ticksMost, defaultTick))
	tick = (tick + time.Millisecond - 1).Truncate(time.Millisecond)
	if most > 0 {
		longest = max(shortest, min(longest, most.Truncate(time.Millisecond)))
	}
	return limits{tick: tick, shortest: shortest, longest: longest}
}

// hop is how long a sign of life may take from the server that received it to the leader, which expires sessions: servers
// tell the leader each half tick which sessions they have heard of. The other half is for delays.
func (l limits) hop() time.Duration { return l.tick }

// beat is the pause between signs of life of a session.
func (l limits) beat(session time.Duration) time.Duration { return max(l.tick/4, session/16) }

// capacity is the longest TTL that a session keeps although nothing is heard of its client after the request that granted
// it: the leader may have heard of the session last a hop and a beat before. The other beat is for delays, and the
// session's own margin.
func (l limits) capacity(session time.Duration) time.Duration {
	return session - l.hop() - 2*l.beat(session)
}

// validate refuses sessions that keep no lease without contact.
func (l limits) validate() error {
	if l.capacity(l.longest) >= leastTTL {
		return nil
	}
	least := l.longest
	for l.capacity(least) < leastTTL {
		least += time.Millisecond
	}
	return fmt.Errorf("%w: a session timeout of %v is too short for servers whose tick is %v: at least %v is needed",
		backend.ErrInvalid, l.longest, l.tick, least)
}

// session is the timeout of the session for leases of ttl: one of a few classes, the shortest that is long enough, or the
// longest there is.
func (l limits) session(ttl time.Duration) time.Duration {
	for s := l.shortest; s < l.longest; s = l.next(s) {
		if l.capacity(s) >= ttl {
			return s
		}
	}
	return l.longest
}

// next is the class above s: a tick more, or about an eighth where that is more.
func (l limits) next(s time.Duration) time.Duration {
	step := l.tick
	for step < s/16 {
		step *= 2
	}
	return s - s%step + step
}

// expiryDelay is how much later than a session's timeout the leader may expire it, counted from when the client was heard
// of last: the news travels for half a tick, and the leader rounds up to a tick.
func (l limits) expiryDelay() time.Duration { return 3 * l.tick / 2 }

const (
	leastTTL    = 100 * time.Millisecond // a shorter lease would often be over before its holder hears of it
	granularity = time.Millisecond
	lateSlack   = 250 * time.Millisecond // for requests and timers of a busy machine
)

func (l limits) guarantees() backend.Guarantees {
	return backend.Guarantees{
		MinTTL:      max(leastTTL, l.capacity(l.shortest)).Round(granularity),
		Granularity: granularity,
		MaxSilence:  l.capacity(l.longest),
		MaxLate:     l.longest + l.expiryDelay() + lateSlack,
		TellsLoss:   true,
		EnforcedBy:  "session timeout at the leader",
		Fencing:     backend.FencingRestart,
		FIFO:        true,
		Wake:        backend.WakePush,
		Consistency: backend.Linearizable,
		Reach:       backend.ReachNetwork,
	}
}
