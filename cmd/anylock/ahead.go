package main

import (
	"context"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
)

// room is how long after a grant the command may run before it has to be stopped for want of a renewal.
func room(ttl, grace time.Duration) time.Duration {
	return ttl - backend.Margin(ttl) - killMargin(ttl) - grace
}

// maxGrace is the longest grace that leaves time for renewals, a twentieth of the TTL.
func maxGrace(ttl time.Duration) time.Duration {
	const least = 20
	return max(0, room(ttl, 0)-ttl/least)
}

// keepAhead renews a lease more often than package lock does, where that would be too late with another attempt after
// one without an answer: with a long grace or a short TTL. Failed attempts need no care here: the supervisor looks at
// the deadline only.
func keepAhead(l *lock.Lease, ttl, grace time.Duration) (stop func()) {
	room := room(ttl, grace)
	// Package lock begins when a third of the TTL has passed, waits for a third of what is left, and pauses for an
	// eighth of the rest.
	const again, of = 11, 18
	if room >= ttl*again/of {
		return func() {}
	}
	// Attempts last as long as package lock's, or a slow store would be taken for a silent one. Two of them and a pause
	// fill the room.
	const parts, attempts, each = 5, 2, 2
	pause := room / parts
	return repeat(pause, func(ctx context.Context) {
		for range attempts {
			limited, cancel := context.WithTimeout(ctx, each*pause)
			err := l.Renew(limited, ttl)
			cancel()
			if err == nil {
				return
			}
		}
	})
}
