package redis

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

const (
	// maxRecheck is the longest pause of a waiter between its requests. It bounds how long a key may stay free before a
	// waiter whose message was lost, or whose predecessor in the queue is dead.
	maxRecheck = time.Second
	// timerJitter spreads the timers of waiters that expect the key to expire at the same instant.
	timerJitter = 100 * time.Millisecond
)

// wait queues for a key that has just been refused, and returns when the key is granted. The server notifies the waiter;
// a timer backs the message. A queued waiter outlives an outage of max(TTL, LeastPatience).
func (a *attempt) wait(ctx context.Context, w *waiter, refusal acquireReply) (backend.Lease, error) {
	in := a.b.inbox
	patience := max(a.ttl, exchange.LeastPatience)
	busy := &backend.HeldError{Holder: refusal.holder} // the server's latest refusal
	if err := in.confirm(ctx, a.b.usage.Closing, patience); err != nil {
		if kit.Ended(ctx) {
			err = kit.ContextError(ctx, busy)
		}
		return nil, err
	}
	pause := kit.Pause{Min: 20 * time.Millisecond, Max: time.Second}
	var failing time.Time // when the outage began; zero while requests are answered
	delay := recheckAfter(refusal.holder.TTL)
	if !a.queued {
		delay = 0 // the key may have been released before the subscription existed
	}
	for first := !a.queued; ; first = false {
		if delay > 0 {
			if err := a.sleep(ctx, w, delay); err != nil {
				if kit.Ended(ctx) {
					err = kit.ContextError(ctx, busy)
				}
				return nil, err
			}
		}
		select {
		case <-w.wake: // the next request answers earlier notifications
		default:
		}
		reply, err := a.try(ctx, true)
		switch {
		case err == nil && reply.granted:
			return a.grant(ctx, reply)
		case err == nil:
			if reply.added && !first {
				in.checkSubscription() // the reservation expired, and no notification arrived
			}
			failing = time.Time{}
			busy = &backend.HeldError{Holder: reply.holder}
			pause.Reset()
			delay = recheckAfter(reply.holder.TTL)
		case kit.Ended(ctx):
			return nil, kit.ContextError(ctx, busy)
		case !exchange.Passing(err) || !failing.IsZero() && time.Since(failing) > patience:
			return nil, err
		default:
			if failing.IsZero() {
				failing = time.Now()
			}
			delay = pause.Next(0)
		}
	}
}

// sleep returns when the waiter should request the key again: after a notification or after delay.
func (a *attempt) sleep(ctx context.Context, w *waiter, delay time.Duration) error {
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-w.wake:
		return nil
	case <-t.C:
		return nil
	case <-ctx.Done():
		return kit.ContextError(ctx, nil)
	case <-a.b.usage.Closing:
		return backend.ErrClosed
	}
}

// recheckAfter returns when to request a key again that expires after remaining.
func recheckAfter(remaining time.Duration) time.Duration {
	if remaining <= 0 || remaining > maxRecheck {
		return maxRecheck - rand.N(maxRecheck/10)
	}
	return remaining + time.Millisecond + rand.N(min(timerJitter, remaining/4+5*time.Millisecond))
}
