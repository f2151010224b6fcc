package file

import (
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
		return nil, orContext(ctx, err)
	}
	for {
		err := a.try(ctx)
		var next time.Duration
		switch {
		case err == nil && a.granted && time.Now().Before(backend.Deadline(a.grant.Sent, a.ttl)):
			l, err := a.begin(ctx)
			if err != nil && busy != nil && backend.Ended(ctx) {
				err = backend.ContextError(ctx, busy)
			}
			return l, err
		case err == nil && a.granted:
			a.giveBack() // this process stood still for as long as the TTL
			continue
		case err == nil:
			answered, busy = time.Now(), &backend.HeldError{Holder: a.holder}
			pause.Reset()
			next = a.nextLook()
		case ctx.Err() != nil || backend.Definite(err) || answered.IsZero() || time.Since(answered) > patience:
			return ended(err)
		default:
			next = pause.Next(0)
		}
		if err := a.sleep(ctx, next, err == nil); err != nil {
			return ended(err)
		}
	}
}

// sleep returns when there is something to do: a turn, a change in the record, or the end of ctx or the Backend, which are
// errors. Without look it is just a pause.
func (a *attempt) sleep(ctx context.Context, d time.Duration, look bool) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-a.ticket.turn:
			return nil
		case <-ctx.Done():
			return backend.ContextError(ctx, nil)
		case <-a.b.done:
			return backend.ErrClosed
		case <-a.ticket.look:
		case <-timer.C:
		}
		if !look || !a.stillWaits() {
			return nil
		}
		timer.Reset(a.nextLook())
	}
}

// stillWaits looks at the record, without its lock, and reports whether there is nothing to do yet.
func (a *attempt) stillWaits() bool {
	inbox, err := a.b.inbox.address()
	if err != nil {
		return false
	}
	r, now, ok, err := a.b.store.peek(a.r.Key)
	if !ok || err != nil {
		return false
	}
	a.place = r.place(a.r.Owner)
	if a.place < 0 || r.queue[a.place].inbox != inbox || r.claim(a.r.Owner) {
		return false
	}
	a.opportunity = time.Duration(r.opportunity(a.place) - now)
	return a.opportunity > 0
}

// nextLook is how long to sleep if nobody tells us.
func (a *attempt) nextLook() time.Duration {
	const least = time.Millisecond
	most := min(lookEvery*time.Duration(max(a.place/lookFar, 1)), lookMost)
	most -= rand.N(most / 4)
	return min(max(a.opportunity, least), most)
}
