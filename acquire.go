package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Acquire waits until key is granted, ctx ends, or the limit of WithWait has passed. ctx bounds only the wait: once
// Acquire has returned, the end of ctx does not affect the lease, which renews itself until the caller calls Release.
// To stop work when the lease is lost, derive the work's context with Lease.Context.
//
// If the store cannot be reached at first, Acquire fails at once. Once the store has refused its request because the
// key is busy, Acquire survives an outage of at least five seconds. The error never matches ErrLost. It is one of
// these:
//
//   - ErrDeadlock: ctx carries a lease of this Locker on key, and Reentrant is missing or the lease has the other mode
//     (see Shared).
//   - ErrHeld: the limit of WithWait has passed, and the key was busy.
//   - ErrUnavailable: the store could not be reached, or has not answered within the limit of WithWait, or its grants
//     arrived so late that the leases had already ended.
//   - The context's error: ctx has ended. Nothing is left behind. The error also matches ErrHeld if the key was busy,
//     unless ctx was cancelled before its deadline while another goroutine of the process was requesting the key.
//   - ErrInvalid, ErrUnsupported or ErrClosed: nothing was granted.
//   - Any other error comes from the store or the network. Anything that the request may have left there is cleaned up
//     in the background, or ends with the TTL.
func (l *Locker) Acquire(ctx context.Context, key string, opts ...AcquireOption) (*Lease, error) {
	return l.traced(ctx, "acquire", key, opts, true, l.acquire)
}

// TryAcquire is like Acquire but does not wait. If the key is busy, the error is ErrHeld, with a *HeldError that names
// the holder if the store knows it.
func (l *Locker) TryAcquire(ctx context.Context, key string, opts ...AcquireOption) (*Lease, error) {
	return l.traced(ctx, "acquire", key, opts, false, l.acquire)
}

// Do holds key while f runs. f's context is a child of ctx that also ends when the lock is lost, and f should then stop
// writing. ctx bounds both the wait and f: use WithWait to limit the wait alone. Do returns f's error, joined with
// ErrLost if the lease ended before f did, or with the error of the release. It releases the lease even if f panics.
func (l *Locker) Do(
	ctx context.Context, key string, f func(ctx context.Context, lease *Lease) error, opts ...AcquireOption,
) (err error) {
	lease, err := l.Acquire(ctx, key, opts...)
	if err != nil {
		return err
	}
	defer func() {
		if rerr := lease.Release(ctx); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}()
	return f(lease.Context(ctx), lease)
}

// traced checks the key and the options of the operation op, and returns the result of acquire, which implements it. It
// names the operation and the key in the error, and reports the start and the end to the Tracer.
func (l *Locker) traced(
	ctx context.Context, op, key string, opts []AcquireOption, wait bool,
	acquire func(ctx context.Context, full string, terms *settings, wait bool) (*Lease, error),
) (lease *Lease, err error) {
	full, invalidKey := l.fullKey(key)
	terms, invalidOption := l.terms(opts)
	if l.defaults.tracer != nil {
		e := AcquireEnd{AcquireStart: AcquireStart{Backend: l.name, Key: full, TTL: terms.leaseTTL(), Wait: wait,
			Shared: terms.shared}}
		begun := time.Now()
		ctx = l.defaults.tracer.TraceAcquireStart(ctx, e.AcquireStart)
		defer func() {
			limited := wait && terms.wait > 0 && terms.wait != forever
			e.Waited, e.Err, e.Outcome = time.Since(begun), err, outcome(op, lease, err, limited)
			if lease != nil {
				e.Owner, e.Token = lease.Owner(), lease.Token()
			}
			l.defaults.tracer.TraceAcquireEnd(ctx, e)
		}()
	}
	err = cmp.Or(invalidKey, invalidOption)
	if err == nil {
		lease, err = acquire(ctx, full, terms, wait)
	}
	if err != nil {
		return nil, l.error(op, full, err)
	}
	return lease, nil
}

// acquire implements Acquire, or TryAcquire if wait is false: it acquires the key by re-entry, or contends for it.
func (l *Locker) acquire(ctx context.Context, full string, terms *settings, wait bool) (*Lease, error) {
	if err := kit.ContextError(ctx, nil); err != nil {
		return nil, err
	}
	if lease, err := l.reenter(ctx, full, terms); lease != nil || err != nil {
		return lease, err
	}
	wait = wait && terms.wait > 0
	if !wait || terms.wait == forever {
		return l.contend(ctx, full, terms, wait)
	}
	limited, cancel := context.WithTimeout(ctx, terms.wait)
	defer cancel()
	lease, err := l.contend(limited, full, terms, true)
	// Stores compare deadlines with the clock, which may be ahead of the context's timer.
	if errors.Is(err, context.DeadlineExceeded) && kit.Ended(limited) &&
		!errors.Is(kit.ContextError(ctx, nil), context.DeadlineExceeded) {
		return nil, waitedErr(err, terms.wait)
	}
	return lease, err
}

// waitedErr returns the error of a wait that ended with err because its limit has passed. The result matches no context
// error, because the caller's context did not end the wait.
func waitedErr(err error, limit time.Duration) error {
	if busy := refusal(err); busy != nil {
		return fmt.Errorf("%w: not granted within %v", busy, limit)
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok { // the end of the wait, and the error before it
		for _, e := range several.Unwrap() {
			if !kit.IsContextError(e) {
				return fmt.Errorf("%w: the store has not answered within %v (last error: %w)", ErrUnavailable, limit, e)
			}
		}
	}
	return fmt.Errorf("%w: the store has not answered within %v", ErrUnavailable, limit)
}

// contend passes the key's gate, then gets the lease by hand-off or from the store. Its error never matches ErrLost.
func (l *Locker) contend(ctx context.Context, full string, terms *settings, wait bool) (lease *Lease, err error) {
	g, handed, busy, err := l.enter(ctx, full, terms, wait)
	if err != nil {
		return nil, err
	}
	if isClosed(l.stopping) {
		l.passOn(g, handed)
		return nil, ErrClosed
	}
	var failure error // of the last request
	defer func() {
		if lease == nil { // also if the store panics
			l.leave(g, failure)
		}
	}()
	if handed != nil {
		if lease := handed.begin(terms); lease != nil {
			return lease, nil
		}
		handed.discard(ctx) // lost during the hand-off: request a lease from the store
	}
	if err := l.notReady(); wait && err != nil {
		l.defaults.logger.Warn("acquire: the store cannot grant yet", "key", full, "backend", l.name, "error", err)
	}
	// A grant that takes longer than its TTL to arrive is useless, but the store works: try again, up to a limit.
	const most = 5
	for attempt := 1; ; attempt++ {
		t, err := l.tryThenWait(ctx, g, terms, wait, &busy)
		if err == nil {
			if terms.owner != "" && !g.private {
				g = l.moveToPrivate(g)
				t.gate = g
			}
			if lease := t.begin(terms); lease != nil {
				return lease, nil
			}
			t.discard(ctx)
			err = fmt.Errorf("%w before Acquire returned the lease", l.lossReason())
		}
		failure = err
		if !wait || !errors.Is(err, ErrLost) || attempt == most || terms.owner != "" {
			if busy != nil && kit.IsContextError(err) && !errors.Is(err, ErrHeld) {
				err = cmp.Or(kit.ContextError(ctx, busy), err)
			}
			if errors.Is(err, ErrLost) { // the caller had no lease to lose
				err = cmp.Or(kit.ContextError(ctx, refusal(err)), fmt.Errorf("%w: %v", ErrUnavailable, err))
			}
			return nil, err
		}
		l.defaults.logger.Warn("acquire: grant arrived too late, trying again", "key", full, "backend", l.name,
			"ttl", terms.leaseTTL())
	}
}

// notReady returns an error if the store cannot grant yet, nil if it can or does not know.
func (l *Locker) notReady() error {
	if r, ok := l.backend.(backend.Readiness); ok {
		return r.NotReady()
	}
	return l.checkOpened()
}

// tryThenWait requests a lease on g's key from the store. Shutdown ends its wait there. If an attempt before the wait
// finds the key held, tryThenWait sets busy to the error of that attempt.
func (l *Locker) tryThenWait(ctx context.Context, g *gate, terms *settings, wait bool, busy *error) (*tenure, error) {
	if !wait || l.guarantees.Reach == ReachProcess { // a request is cheaper than setting up a wait
		t, err := l.requestLease(ctx, g, terms, false)
		if !wait || !errors.Is(err, ErrHeld) {
			return t, err
		}
		*busy = err
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer l.onStop(cancel)()
	t, err := l.requestLease(waiting, g, terms, true)
	if kit.IsContextError(err) && !kit.Ended(ctx) && isClosed(l.stopping) {
		err = ErrClosed
	}
	return t, err
}

// requestLease makes one request for a lease to the store.
func (l *Locker) requestLease(ctx context.Context, g *gate, terms *settings, wait bool) (*tenure, error) {
	ttl, owner := terms.leaseTTL(), terms.newOwner()
	lease, err := l.backend.Acquire(ctx, backend.Request{Key: g.key, Owner: owner, TTL: ttl, Wait: wait, Shared: g.shared})
	if err == nil {
		t, err := l.newTenure(g, lease, owner, ttl)
		if err != nil {
			_ = lease.Release(ctx) // the TTL ends the lease in any case
		}
		return t, err
	}
	if held, ok := errors.AsType[*HeldError](err); ok {
		err = &HeldError{Holder: l.withToken(held.Holder)}
		err = cmp.Or(kit.ContextError(ctx, err), err)
	}
	return nil, err
}

// outcome returns how the operation op with the result lease or err ended; both are nil if the store has panicked.
// limited means that the wait had a limit.
func outcome(op string, lease *Lease, err error, limited bool) Outcome {
	switch {
	case lease != nil && lease != &lease.tenure.first:
		return OutcomeReentered
	case lease != nil && op == "resume":
		return OutcomeResumed
	case lease != nil && lease.tenure.handoffs > 0:
		return OutcomeHandedOn
	case lease != nil:
		return OutcomeGranted
	case errors.Is(err, ErrClosed):
		return OutcomeClosed
	case errors.Is(err, context.Canceled):
		return OutcomeCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrHeld) && limited:
		return OutcomeTimeout
	case errors.Is(err, ErrHeld):
		return OutcomeHeld
	}
	return OutcomeError
}
