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

// keepAhead renews a lease more often than package lock does, which is every third of the TTL, where a long grace leaves
// less room than that. Failed attempts need no care here: the supervisor looks at the deadline only.
func keepAhead(l *lock.Lease, ttl, grace time.Duration) (stop func()) {
	if grace <= ttl/graceShare {
		return func() {}
	}
	const attempts = 3 // in the room there is
	return repeat(room(ttl, grace)/attempts, func(ctx context.Context) { _ = l.Renew(ctx, ttl) })
}
