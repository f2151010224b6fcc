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

// A Pause is the growing, jittered time between attempts: exponential backoff with full decorrelation, so that waiters
// of many processes spread out (M. Brooker, "Exponential Backoff and Jitter", 2015).
type Pause struct {
	Min, Max time.Duration
	last     time.Duration
}

// Next returns the next pause, between Min and Max. hint, if positive, is the time until the store expects the key to
// be free. If hint is shorter, the pause is hint plus a little jitter.
func (p *Pause) Next(hint time.Duration) time.Duration {
	upper := min(3*max(p.last, p.Min), p.Max)
	d := p.Min + rand.N(max(upper-p.Min, 1))
	p.last = d
	if hint > 0 && hint < d {
		d = hint + rand.N(p.Min+1)
	}
	return d
}

// Reset makes the next pause short again.
func (p *Pause) Reset() { p.last = 0 }

// Sleep waits for d, or until ctx ends: then it returns the context's error.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ContextError(ctx, nil)
}

// leastPatience is the shortest Patience of Leases.Acquire, and the default of a Waiter.
const leastPatience = 10 * time.Second

// A Waiter acquires a key that may be busy. Once the store has reported that the key is busy, other errors count as an
// outage, which the waiter survives for its Patience. If the first attempt fails in another way, the wait ends at once.
type Waiter struct {
	// Try makes one attempt. If the key is busy, the error matches ErrHeld. After ErrLost, a grant that arrived too late,
	// there is no further attempt: the clean-up of [Leases.Grant] would also release the next grant to the same owner. For
	// the same reason Try must not call [Leases.Abandon] after an unknown outcome.
	Try func(ctx context.Context) (backend.Lease, error)
	// Sleep returns, after a refusal, when it is time to try again. An error of Sleep counts as an error of Try. If Sleep
	// is nil, the waiter polls: each pause lasts at most until the end of the TTL in a HeldError.
	Sleep func(ctx context.Context) error
	// Refused returns, once, a refusal that a Try received before it failed with another error; nil if there was none. A
	// store sets Refused if its Try waits by itself.
	Refused func() error
	// Pause is the time between attempts if Sleep is nil, and after a failure.
	Pause Pause
	// Patience is how long the waiter survives an outage, counted from its first failure; 0 means 10 s. [Leases.Acquire]
	// raises it to at least the TTL and 10 s.
	Patience time.Duration
	// Passing reports whether an error other than ErrHeld may pass by itself; other errors end the wait. If Passing is
	// nil, every error may pass, except ErrLost and those for which Definite is true: no attempt can change them.
	Passing func(err error) bool
	// CleanUp removes anything that the store may keep of the owner, or begins to do so in the background.
	// [Leases.Acquire] calls it whenever its attempts fail. If CleanUp is nil, Acquire calls [Leases.Withdraw], or
	// [Leases.Abandon] if a Try had an unknown outcome. If the only Try was refused and nothing waited after it, Acquire
	// calls neither.
	CleanUp func()

	refused bool // the store has refused the request of a wait, so it may keep a place in the queue
	unsure  bool // a Try had an unknown outcome
}

// Wait makes attempts until one succeeds. If ctx ends after a refusal, the error matches ErrHeld and ctx's error.
func (w *Waiter) Wait(ctx context.Context) (backend.Lease, error) {
	patience := cmp.Or(w.Patience, leastPatience)
	var busy error        // the last refusal
	var failing time.Time // since when attempts have failed
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
		w.refused = busy != nil
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

// isAnswer reports whether err is an answer, so that the outcome of the request is known.
func isAnswer(err error) bool {
	return Definite(err) || errors.Is(err, backend.ErrLost) || errors.Is(err, backend.ErrHeld) && !IsContextError(err)
}

// endOfWait returns the error of a wait whose context has ended. busy is the last refusal, err the last error.
func endOfWait(ctx context.Context, busy, err error) error {
	switch {
	case busy == nil:
		return ContextError(ctx, err)
	case errors.Is(err, backend.ErrHeld) || IsContextError(err):
		return ContextError(ctx, busy)
	}
	return ContextError(ctx, fmt.Errorf("%w, then: %w", busy, err))
}

// Definite reports whether err is an error of package backend that no further attempt can change: ErrClosed, ErrInvalid
// or ErrUnsupported.
func Definite(err error) bool {
	return errors.Is(err, backend.ErrClosed) || errors.Is(err, backend.ErrInvalid) || errors.Is(err, errors.ErrUnsupported)
}
