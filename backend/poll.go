package backend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A Pause is the growing, jittered time between attempts: exponential with full decorrelation, so that waiters of many
// processes spread out (M. Brooker, "Exponential Backoff and Jitter", 2015).
type Pause struct {
	Min, Max time.Duration
	last     time.Duration
}

// Next returns the next pause, between Min and Max. hint, if positive, is when the store expects the key to be free: the
// pause ends then, with a little jitter, if that is sooner.
func (p *Pause) Next(hint time.Duration) time.Duration {
	upper := min(3*max(p.last, p.Min), p.Max)
	d := p.Min
	if upper > p.Min {
		d += rand.N(upper - p.Min)
	}
	p.last = max(d, p.Min)
	if hint > 0 && hint < d {
		d = hint + rand.N(p.Min+1)
	}
	return d
}

// Reset makes the next pause short again.
func (p *Pause) Reset() { p.last = 0 }

// Sleep waits for d, or until ctx ends: then it returns the context's error.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		if ctx.Err() == nil {
			return nil
		}
	case <-ctx.Done():
	}
	return ContextError(ctx, nil)
}

// Poll is Acquire with Wait for a store that cannot wait by itself: it calls try until the key is not busy. A HeldError's
// TTL is the hint for the next pause. Once the store has said that the key is busy, other errors are taken for an
// outage and outlived for as long as patience after the last answer; a failing first attempt ends it at once. So does
// ErrLost, a grant that arrived too late: [Leases.Grant] is giving it back, and would take the next one under the same owner
// for it. For the same reason try must not [Leases.Abandon] what it may have been granted: do it when Poll has failed.
func Poll(ctx context.Context, pause Pause, patience time.Duration, try func(ctx context.Context) (Lease, error)) (Lease, error) {
	var answered time.Time
	var busy error // its last answer
	ended := func(err error) error {
		switch {
		case busy == nil:
			return ContextError(ctx, err)
		case errors.Is(err, ErrHeld) || IsContextError(err):
			return ContextError(ctx, busy)
		}
		return ContextError(ctx, fmt.Errorf("%w, then: %w", busy, err))
	}
	for {
		l, err := try(ctx)
		var hint time.Duration
		switch held := (*HeldError)(nil); {
		case err == nil:
			return l, nil
		case errors.As(err, &held):
			hint = held.Holder.TTL
			busy, answered = held, time.Now()
		case errors.Is(err, ErrHeld):
			busy, answered = ErrHeld, time.Now()
		case Definite(err), errors.Is(err, ErrLost):
			return nil, err
		case Ended(ctx):
			return nil, ended(err)
		case answered.IsZero() || time.Since(answered) > patience:
			return nil, err
		}
		if Sleep(ctx, pause.Next(hint)) != nil {
			return nil, ended(err)
		}
	}
}

// Definite reports whether err is one of this package's errors that no further attempt can change.
func Definite(err error) bool {
	return errors.Is(err, ErrClosed) || errors.Is(err, ErrInvalid) || errors.Is(err, errors.ErrUnsupported)
}
