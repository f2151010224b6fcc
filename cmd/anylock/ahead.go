package main

import (
	"context"
	"time"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend"
)

// maxUnrenewed returns how long the command may run after a grant without a renewal before it must be stopped.
func maxUnrenewed(ttl, grace time.Duration) time.Duration {
	return ttl - backend.Margin(ttl) - killMargin(ttl) - grace
}

// maxGrace returns the longest grace that leaves a twentieth of the TTL for renewals.
func maxGrace(ttl time.Duration) time.Duration {
	const least = 20
	return max(0, maxUnrenewed(ttl, 0)-ttl/least)
}

// renewEarly renews the lease earlier than package lock does if the grace is long or the TTL short. If one attempt got
// no reply, package lock's next attempt would then come too late. renewEarly ignores failed attempts, because the
// supervisor checks only the deadline. requested is the TTL to renew to. It is longer than ttl if the deadline is never
// as far away: see limitTTL.
func renewEarly(l *lock.Lease, requested, ttl, grace time.Duration) (stop func()) {
	room := maxUnrenewed(ttl, grace)
	// Package lock starts its first attempt after 1/3 of the TTL. The attempt may take 1/3 of the remaining time, and the
	// pause after it 1/8 of the rest. So the second attempt starts after 11/18 of the TTL.
	const num, den = 11, 18
	if room >= ttl*num/den {
		return func() {}
	}
	// Two attempts and a pause fill the room. Each attempt may take 2/5 of it: with much less, a slow store would look
	// like a store that does not respond.
	const parts, attempts, each = 5, 2, 2
	pause := room / parts
	return repeat(pause, func(ctx context.Context) {
		for range attempts {
			limited, cancel := context.WithTimeout(ctx, each*pause)
			err := l.Renew(limited, requested)
			cancel()
			if err == nil {
				return
			}
		}
	})
}
