package redis

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

const (
	// waitCap is the longest pause of a waiter between its requests. It bounds how long a waiter may sit before a free
	// key when every message and the first two waiters of the queue have been lost at once.
	waitCap = 5 * time.Second
	// timerJitter spreads the timers of waiters that expect the key to expire at the same instant.
	timerJitter = 100 * time.Millisecond
)

// wait queues for a key that has just been refused, and returns when it is granted. The server tells the waiter when it
// is its turn; a timer backs that. Once queued, a waiter outlives an outage of max(TTL, leastPatience).
func (a *attempt) wait(ctx context.Context, w *waiter, refused answer) (backend.Lease, error) {
	in := a.b.inbox
	patience := max(a.ttl, exchange.LeastPatience)
	held := &backend.HeldError{Holder: refused.holder} // what the server last said
	if err := in.confirm(ctx, a.b.usage.Closing, patience); err != nil {
		if backend.Ended(ctx) {
			err = backend.ContextError(ctx, held)
		}
		return nil, err
	}
	pause := backend.Pause{Min: 20 * time.Millisecond, Max: time.Second}
	var failing time.Time // since when no request has been answered; zero while they are, which may be seldom
	delay := untilExpiry(refused.holder.TTL)
	reserved := refused.reserved()
	if !a.queued {
		delay = 0 // the key may have been released before the subscription was there
	}
	for first := !a.queued; ; first = false {
		if delay > 0 {
			if err := a.sleep(ctx, w, delay, reserved); err != nil {
				if backend.Ended(ctx) {
					err = backend.ContextError(ctx, held)
				}
				return nil, err
			}
		}
		select {
		case <-w.wake: // what was told until now this request finds out
		default:
		}
		ans, err := a.try(ctx, true)
		switch {
		case err == nil && ans.granted:
			return a.grant(ctx, ans)
		case err == nil:
			if ans.added && !first {
				in.suspect() // its turn came and went, and nobody told us
			}
			failing = time.Time{}
			held = &backend.HeldError{Holder: ans.holder}
			pause.Reset()
			delay, reserved = untilExpiry(ans.holder.TTL), ans.reserved()
		case backend.Ended(ctx):
			return nil, backend.ContextError(ctx, held)
		case !exchange.Passing(err) || !failing.IsZero() && time.Since(failing) > patience:
			return nil, err
		default:
			if failing.IsZero() {
				failing = time.Now()
			}
			delay, reserved = pause.Next(0), false
		}
	}
}

// reserved tells that the key is kept for a waiter that has been told to come.
func (a answer) reserved() bool { return a.holder.Token == 0 }

// sleep returns when the waiter should ask again: told so, or after delay. It sends nothing, except where the key is
// reserved for another waiter: then it looks after the reservation, by the cheapest command, whether that one has come.
func (a *attempt) sleep(ctx context.Context, w *waiter, delay time.Duration, reserved bool) error {
	t := w.lieDown(delay, reserved)
	defer w.rise()
	for {
		select {
		case <-w.wake:
			return nil
		case <-t.C:
			if !w.looks() {
				return nil
			}
			left, err := a.b.left(ctx, a.names.lock)
			if err != nil || left <= 0 {
				return nil
			}
			t.Reset(untilExpiry(left))
		case <-ctx.Done():
			return backend.ContextError(ctx, nil)
		case <-a.b.usage.Closing:
			return backend.ErrClosed
		}
	}
}

// lieDown begins a sleep of the waiter, and returns its timer.
func (w *waiter) lieDown(delay time.Duration, reserved bool) *time.Timer {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.standby > 0 {
		delay, reserved = untilLook(w.standby), true
		w.standby = 0
	}
	w.watches = reserved
	w.timer = time.NewTimer(delay)
	return w.timer
}

func (w *waiter) rise() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.timer = nil
}

// standBy lets the waiter look after a reservation in d. It does not wake a sleeping one for that: at every hand-off
// somebody is told, and nearly always for nothing.
func (w *waiter) standBy(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer == nil {
		w.standby = d
		return
	}
	w.watches = true
	w.timer.Reset(untilLook(d))
}

// looks reports whether the waiter should look after a reservation now, once.
func (w *waiter) looks() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	watches := w.watches
	w.watches = false
	return watches
}

// untilLook is when to look after a reservation that lasts for d.
func untilLook(d time.Duration) time.Duration { return d + time.Millisecond + rand.N(timerJitter/4) }

// left asks how long a lock is held for, by the cheapest command there is.
func (b *Backend) left(ctx context.Context, lock string) (time.Duration, error) {
	v, err := b.deliver(ctx, time.Now().Add(b.options.Timeout), exchange.Request{Args: []any{"pttl", lock}})
	ms, _ := v.(int64)
	return time.Duration(ms) * time.Millisecond, err
}

// untilExpiry is when to ask again for a key that is held for left more.
func untilExpiry(left time.Duration) time.Duration {
	if left <= 0 || left > waitCap {
		return waitCap - rand.N(waitCap/10)
	}
	return left + time.Millisecond + rand.N(min(timerJitter, left/4+5*time.Millisecond))
}
