package file

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
)

const (
	// lookEvery is how often a waiter looks at the record in case nobody tells it. Those far behind look less often, in
	// proportion to their place.
	lookEvery = time.Second
	lookMost  = 10 * time.Second
	lookFar   = 4 // places that look as often as the first
	// patience is how long a waiter outlives errors after the last time that it could read the record.
	patience = time.Minute
)

// wait queues until the key is granted or ctx ends.
func (a *attempt) wait(ctx context.Context) (*backend.Life, error) {
	a.ticket = a.b.inbox.join()
	defer a.b.inbox.leave(a.ticket)
	pause := backend.Pause{Min: 10 * time.Millisecond, Max: time.Second}
	var answered time.Time // when the record was last read
	var busy error         // what it said
	ended := func(err error) (*backend.Life, error) {
		a.giveBack()
		if busy != nil && backend.Ended(ctx) {
			err = busy
		}
		return nil, cmp.Or(backend.ContextError(ctx, err), err)
	}
	for {
		err := a.try(ctx)
		var next time.Duration
		switch {
		case err == nil && a.granted:
			l, err := a.begin(ctx)
			if err != nil && busy != nil && backend.Ended(ctx) {
				err = backend.ContextError(ctx, busy)
			}
			return l, err
		case err == nil:
			answered, busy = time.Now(), &backend.HeldError{Holder: a.holder}
			pause.Reset()
			next = a.nextLook()
		case ctx.Err() != nil || backend.Definite(err) || answered.IsZero() || time.Since(answered) > patience:
			return ended(err)
		default:
			next = pause.Next(0)
		}
		if err := a.sleep(ctx, next); err != nil {
			return ended(err)
		}
	}
}

// sleep returns when it is time to try again: it is the waiter's turn, or d has passed. The end of ctx or the Backend is an error.
func (a *attempt) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-a.ticket.turn:
			return nil
		case <-timer.C:
			return nil
		case <-a.ticket.next:
			timer.Reset(claimGrace)
		case <-ctx.Done():
			return backend.ContextError(ctx, nil)
		case <-a.b.done:
			return backend.ErrClosed
		}
	}
}

// nextLook is how long to sleep if nobody tells us.
func (a *attempt) nextLook() time.Duration {
	const least = time.Millisecond
	most := min(lookEvery*time.Duration(max(a.place/lookFar, 1)), lookMost)
	most -= rand.N(most / 4)
	return min(max(a.opportunity, least), most)
}
