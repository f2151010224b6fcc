package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

const (
	// maxRecheck is the longest pause of a waiter between its requests. It bounds how long a key may stay free if the
	// waiter's message was lost, or the waiter in front of it is dead.
	maxRecheck = time.Second
	// timerJitter spreads the timers of waiters that expect the key to expire at the same instant.
	timerJitter = 100 * time.Millisecond
)

// register makes the inbox notify the attempt.
func (a *attempt) register() {
	if a.waiter == nil {
		a.waiter = a.b.inbox.add(a.r.Owner)
	}
}

// unregister undoes register.
func (a *attempt) unregister() {
	if a.waiter != nil {
		a.b.inbox.remove(a.r.Owner, a.waiter)
	}
}

// sleep returns when a waiter should request the key again: after a notification, or after a.recheck.
func (a *attempt) sleep(ctx context.Context) error {
	if !a.queued { // the key may have been released before the subscription existed: request the key at once
		a.register()
		return a.b.inbox.awaitSubscription(ctx, max(a.ttl, exchange.LeastPatience))
	}
	t := time.NewTimer(a.recheck)
	defer t.Stop()
	select {
	case <-a.waiter:
		a.notified = true
		return nil
	case <-t.C:
		return nil
	case <-ctx.Done():
		return kit.ContextError(ctx, nil)
	}
}

// passing reports whether a waiter keeps trying after err. If too few replicas have its grant, a replica may just have
// been restarted. A waiter that cannot subscribe stops, because awaitSubscription has already waited for its full
// patience.
func passing(err error) bool {
	return (exchange.Passing(err) || errors.Is(err, exchange.ErrReplicas)) && !errors.Is(err, errSubscribe)
}

// recheckAfter returns how long to wait before requesting a key again that expires after remaining.
func recheckAfter(remaining time.Duration) time.Duration {
	if remaining <= 0 || remaining > maxRecheck {
		return maxRecheck - rand.N(maxRecheck/10)
	}
	return remaining + time.Millisecond + rand.N(min(timerJitter, remaining/4+5*time.Millisecond))
}
