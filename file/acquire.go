package file

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Acquire implements backend.Backend.
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	a := &attempt{b: b, r: r, ttl: guarantees.Round(r.TTL)}
	if r.Wait {
		a.ticket = b.inbox.register()
		defer b.inbox.unregister(a.ticket)
	}
	return b.leases.Acquire(ctx, r, kit.Waiter{
		Try: a.try, Sleep: a.sleep, CleanUp: a.cleanUp,
		Pause: kit.Pause{Min: 10 * time.Millisecond, Max: time.Second},
	})
}

// An attempt is one call of Acquire.
type attempt struct {
	b   *Backend
	r   backend.Request
	ttl time.Duration

	ticket  ticket // set if the request waits
	touched bool   // a record that names the owner may have been written

	// The result of the last try.
	granted bool
	grant   kit.Grant
	holder  backend.Holder // when not granted
	pause   time.Duration  // until the next poll
}

// cleanUp removes the lease or the place in the queue that a failed attempt may have left in the record. It does so at
// once, in some 20 µs, or in the background if another process keeps the bucket locked.
func (a *attempt) cleanUp() {
	if !a.touched {
		return
	}
	const atOnce = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), atOnce)
	defer cancel()
	if err := a.b.release(ctx, a.r.Key, a.r.Owner); err != nil && !errors.Is(err, backend.ErrLost) {
		a.b.leases.Withdraw(a.r, a.ttl)
	}
}

// try acquires the key if it is available. Otherwise, try joins the queue if the request waits.
func (a *attempt) try(ctx context.Context) (backend.Lease, error) {
	var inbox uint64
	if a.r.Wait {
		var err error
		if inbox, err = a.b.inbox.address(); err != nil {
			return nil, err
		}
	}
	a.grant.Sent = time.Now()
	err := a.b.update(ctx, a.r.Key, true, func(r *record, now int64, n notifier) (bool, error) {
		a.granted = false
		return a.change(r, now, n, inbox), nil
	})
	if err != nil {
		return nil, err
	}
	if !a.granted {
		return nil, &backend.HeldError{Holder: a.holder}
	}
	return a.b.leases.Grant(ctx, a.r, a.grant)
}

// change tries to acquire the key in the record r, or to join its queue. It reports whether r has changed.
func (a *attempt) change(r *record, now int64, n notifier, inbox uint64) (changed bool) {
	if r.lease(a.r.Owner) == nil {
		changed = r.offer(a.r.Owner, now, n)
		if r.mayAcquire(a.r.Owner, a.r.Shared) {
			r.reserveFor(a.r.Owner, a.r.Shared, now, n)
		}
	}
	// reserved now or earlier, or already granted to this request
	if l := r.lease(a.r.Owner); l != nil && l.shared == a.r.Shared {
		if l.token == 0 {
			l.token = a.b.store.nextToken(r.last)
			r.last = l.token
		}
		l.expires = now + int64(a.ttl)
		a.granted, a.touched = true, true
		a.grant = kit.Grant{Token: l.token, Sent: a.grant.Sent, TTL: a.ttl}
		return true
	}
	a.holder = r.holder(now)
	if !a.r.Wait {
		return changed
	}
	waiter := queued{a.r.Owner, inbox, a.ticket.number, a.r.Shared}
	place := r.place(a.r.Owner)
	if place < 0 {
		place = len(r.queue)
		r.queue = append(r.queue, waiter)
		changed, a.touched = true, true
	} else if r.queue[place] != waiter {
		r.queue[place] = waiter
		changed = true
	}
	a.pause = r.pause(place, now)
	return changed
}

// sleep returns when it is time to try again: at the waiter's turn, or at the next poll.
func (a *attempt) sleep(ctx context.Context) error {
	timer := time.NewTimer(a.pause)
	defer timer.Stop()
	select {
	case <-a.ticket.turn:
	case <-timer.C:
	case <-ctx.Done():
		return kit.ContextError(ctx, nil)
	}
	return nil
}
