package kit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/anylock/lock/backend"
)

// A Pause is the growing, jittered time between attempts: exponential with full decorrelation, so that waiters of many
// processes spread out (M. Brooker, "Exponential Backoff and Jitter", 2015).
type Pause struct {
	Min, Max time.Duration
	last     time.Duration
}

// Next returns the next pause, between Min and Max. hint, if positive, is when the store expects the key to be free:
// the pause ends then, with a little jitter, if that is sooner.
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

// leastPatience is the shortest time for which a waiter outlives an outage of the store.
const leastPatience = 10 * time.Second

// A Waiter acquires a key that may be busy. Once the store has said that it is, other errors count as an outage, which
// the waiter outlives for its patience. A failing first attempt ends it at once.
type Waiter struct {
	// Try makes one attempt. A busy key is an error that matches ErrHeld. After ErrLost, a grant that arrived too late,
	// there is no other attempt: [Leases.Grant] gives the grant back, and with it the next one of the same owner. For
	// the same reason Try must not [Leases.Abandon] what it may have been granted.
	Try func(ctx context.Context) (backend.Lease, error)
	// Sleep returns after a refusal when it is time to try again. Its error is treated as one of Try. If Sleep is nil,
	// the waiter polls: it pauses, at most until the end of the TTL of a HeldError.
	Sleep func(ctx context.Context) error
	// Refused returns a refusal that a Try met before it failed with another error, once; nil if there was none. A
	// store whose Try waits by itself sets it.
	Refused func() error
	// Pause is the time between attempts without Sleep, and after a failure.
	Pause Pause
	// Patience is how long the waiter outlives an outage, from its first failure on; 10 s if it is 0. [Leases.Acquire]
	// makes it no shorter than the TTL.
	Patience time.Duration
	// Passing reports whether an error other than ErrHeld may pass by itself; other errors end the wait. nil: all may,
	// except those of this package that no attempt can change.
	Passing func(err error) bool
	// CleanUp removes what the store may keep of the owner, or begins to do so in the background. [Leases.Acquire]
	// calls it whenever it fails. nil stands for [Leases.Withdraw], or [Leases.Abandon] if a Try had an unknown
	// outcome; for nothing if the key was refused without a wait.
	CleanUp func()

	unsure bool // a Try had an unknown outcome
}

// Wait makes attempts until one succeeds. If ctx ends after a refusal, the error matches ErrHeld and ctx's error.
func (w *Waiter) Wait(ctx context.Context) (backend.Lease, error) {
	patience := cmp.Or(w.Patience, leastPatience)
	var busy error        // the last refusal
	var failing time.Time // since when the store has not answered
	for {
		l, err := w.try(ctx)
		if err == nil {
			return l, nil
		}
		if w.Refused != nil {
			if r := w.Refused(); r != nil {
				busy, failing = r, time.Time{}
			}
		}
		var hint time.Duration
		refused := errors.Is(err, backend.ErrHeld)
		if refused {
			busy, failing = cmp.Or(busy, backend.ErrHeld), time.Time{}
			if held, ok := errors.AsType[*backend.HeldError](err); ok {
				busy, hint = held, held.Holder.TTL
			}
		}
		if refused && w.Sleep != nil {
			w.Pause.Reset()
			if err = w.Sleep(ctx); err == nil {
				continue
			}
			refused = errors.Is(err, backend.ErrHeld)
		}
		switch {
		case refused:
		case Definite(err), errors.Is(err, backend.ErrLost):
			return nil, err
		case Ended(ctx):
			return nil, endOfWait(ctx, busy, err)
		case busy == nil, w.Passing != nil && !w.Passing(err), !failing.IsZero() && time.Since(failing) > patience:
			return nil, err
		case failing.IsZero():
			failing = time.Now()
		}
		if Sleep(ctx, w.Pause.Next(hint)) != nil {
			return nil, endOfWait(ctx, busy, err)
		}
	}
}

func (w *Waiter) try(ctx context.Context) (backend.Lease, error) {
	l, err := w.Try(ctx)
	w.unsure = w.unsure || err != nil && !isAnswer(err)
	return l, err
}

// isAnswer reports whether err says what the store has answered.
func isAnswer(err error) bool {
	return Definite(err) || errors.Is(err, backend.ErrLost) || errors.Is(err, backend.ErrHeld) && !IsContextError(err)
}

// endOfWait is the error of a wait whose context has ended. busy is the last refusal, err the last error.
func endOfWait(ctx context.Context, busy, err error) error {
	switch {
	case busy == nil:
		return ContextError(ctx, err)
	case errors.Is(err, backend.ErrHeld) || IsContextError(err):
		return ContextError(ctx, busy)
	}
	return ContextError(ctx, fmt.Errorf("%w, then: %w", busy, err))
}

// Definite reports whether err is one of this package's errors that no further attempt can change.
func Definite(err error) bool {
	return errors.Is(err, backend.ErrClosed) || errors.Is(err, backend.ErrInvalid) || errors.Is(err, errors.ErrUnsupported)
}
