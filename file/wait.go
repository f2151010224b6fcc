package file

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend/kit"
)

const (
	// pollEvery is how often a waiter polls the record in case no notification arrives. Those far behind poll less
	// often, in proportion to their place.
	pollEvery = time.Second
	lookMost  = 10 * time.Second
	lookFar   = 4 // places that look as often as the first
)

// sleep returns when it is time to try again: at the waiter's turn, or at the next poll.
func (a *attempt) sleep(ctx context.Context) error {
	timer := time.NewTimer(a.nextPoll())
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
			return kit.ContextError(ctx, nil)
		}
	}
}

// nextPoll is how long to sleep if no notification arrives.
func (a *attempt) nextPoll() time.Duration {
	const least = time.Millisecond
	most := min(pollEvery*time.Duration(max(a.place/lookFar, 1)), lookMost)
	most -= rand.N(most / 4)
	return min(max(a.opportunity, least), most)
}
