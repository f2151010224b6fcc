package specimens

import (
	"context"
	"sync/atomic"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// An Attempt is one Acquire of a twin, of one or more requests. It looks after what requests without an answer may
// leave behind. While it goes on, that is its own: the next request finds it. Only its end cleans up.
type Attempt struct {
	Abandon func() // removes in the background what there is of the owner

	unsure bool
	over   atomic.Bool
	spent  error
}

// Unanswered notes that a request may have been done, or still be, although there is no answer.
func (a *Attempt) Unanswered() { a.unsure = true }

// Late is called when a request that nobody waits for any more has ended.
func (a *Attempt) Late() {
	if a.over.Load() {
		a.Abandon() // it may have come behind what End began
	}
}

// Grant begins the lease's life. When it cannot, the owner is spent, and Leases cleans up.
func (a *Attempt) Grant(ctx context.Context, leases *kit.Leases, r backend.Request, g kit.Grant) *kit.Life {
	l, err := leases.Grant(ctx, r, g)
	a.spent = err
	return l
}

// End returns what Acquire returns, given the result of its last request.
func (a *Attempt) End(l backend.Lease, err error) (backend.Lease, error) {
	a.over.Store(true)
	if a.spent != nil {
		return nil, a.spent
	}
	if err != nil && a.unsure {
		a.Abandon()
	}
	return l, err
}
