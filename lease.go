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

// Key returns the key that is held, with the Locker's prefix.
func (l *Lease) Key() string { return l.tenure.gate.key }

// Owner returns the unique name under which the store knows the holder. If a lease is handed on inside the process, all
// its holders have the same owner.
func (l *Lease) Owner() string { return l.tenure.owner }

// Shared reports whether the lease is shared.
func (l *Lease) Shared() bool { return l.tenure.gate.shared }

// Token returns the fencing token. It is higher than the token of every earlier holder of the key, within the scope
// that Guarantees.Fencing names, and below 2^63. It is the store's fencing number for the grant, times 256, plus the
// number of hand-offs of the lease inside the process (see WithHandoff). If the store has no tokens, it is 0.
func (l *Lease) Token() uint64 { return l.tenure.token }

// Deadline returns the time until which the lease is valid, unless it is lost before. Renewal moves the deadline; a
// loss does not, so check Err too.
func (l *Lease) Deadline() time.Time { return l.tenure.deadline() }

// Lost returns a channel that is closed when the lease ends without being released, at its deadline at the latest. It
// is never closed after the last Release. A lost key is free for others, in this process too, whether or not this
// holder calls Release.
func (l *Lease) Lost() <-chan struct{} {
	t := l.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost == nil {
		t.lost = make(chan struct{})
		if t.cause != nil {
			close(t.lost)
		}
	}
	return t.lost
}

// Err returns nil while the lease is valid. It checks the clock at the time of the call, so it is right even after a
// long pause of the process. Later it returns ErrReleased if the holder has released the lease, or ErrLost if the lease
// ended before that.
func (l *Lease) Err() error {
	l.tenure.mu.Lock()
	defer l.tenure.mu.Unlock()
	err := l.endErrLocked()
	if isLoss(err) {
		err = ErrLost
	}
	return l.tenure.error("hold", err)
}

// Renew makes the lease last for ttl from now, even if it lasted longer before, and automatic renewal continues with
// ttl. If the lease already lasts until the end of its maximum hold (see WithMaxHold), Renew makes no request and
// returns nil. ErrLost means that the lease has ended, ErrReleased that its holder has released it. After any other
// error the outcome is unknown, and the earlier of the old and the new deadline applies. If the store does not reply,
// Renew returns early enough for automatic renewal to make another attempt.
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) error {
	return l.tenure.error("renew", l.renew(ctx, ttl))
}

func (l *Lease) renew(caller context.Context, ttl time.Duration) error {
	if err := backend.ValidateTTL(ttl); err != nil {
		return err
	}
	t := l.tenure
	cancelled := kit.ContextError(caller, nil) // not under the lock: the caller's context may call methods of the lease
	t.mu.Lock()
	ended := cmp.Or(l.endErrLocked(), cancelled)
	requested, ok := t.ttlToRequestLocked(ttl)
	if ended != nil || !ok { // !ok: the lease has reached its maximum hold, so its deadline is final
		t.mu.Unlock()
		return ended
	}
	t.pendingRenewals.Add(1) // under the lock, so that Release does not hand the lease on meanwhile
	t.mu.Unlock()
	limit := backend.MaxTTL // in any case the store limits the request by the deadline
	if t.renewed.Load() {
		// Automatic renewal waits for this request. Without an answer, the earlier of the two deadlines applies.
		limit = attemptTime(min(time.Until(t.lease.Deadline()), t.locker.timeToDeadline(requested)))
	}
	limited, cancel := context.WithTimeoutCause(caller, limit, errNoAnswer)
	defer cancel()
	// Release and a loss end the request, because they end the lease's Context.
	err := t.lease.Renew(l.Context(limited), requested)
	t.mu.Lock()
	if err == nil {
		t.ttl = ttl
	}
	t.renewalEnded(err) // from now on, Release may hand the lease on
	ended = l.endErrLocked()
	t.mu.Unlock()
	now := time.Now()
	t.locker.renewals.schedule(t, now, t.lease.Deadline().Sub(now)) // even after an error, the deadline may be nearer
	if err != nil && ended != nil {
		return ended // whatever the request's own error is: the end of the lease ends the request
	}
	return kit.NotOurs(caller, err)
}

// errNoAnswer is the cause if Renew times out early, to leave time for automatic renewal to try.
var errNoAnswer = errors.New("no answer within a third of what is left of the lease")

// Release hands the lease to the next goroutine of this Locker that waits for the key, or releases it at the store. It
// works even if ctx has ended, and its time is bounded. nil means that the lease is released; a second call also
// returns nil. ErrLost means that the lease had already ended, so that others may have held the key meanwhile.
// ErrClosed means that the Locker was closed before. After any other error the outcome is unknown: a second call
// repeats the request. After an error, the key is free when the TTL has run out, at the latest. With Reentrant, only
// the last Release of a key releases the lease.
func (l *Lease) Release(ctx context.Context) error {
	return l.tenure.error("release", l.release(ctx))
}

func (l *Lease) release(ctx context.Context) error {
	t := l.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.releasing { // bounded by the store's timeout; not a mutex, which would stop the time of a synctest bubble
		t.releaseDone.Wait()
	}
	switch {
	case !l.released:
		l.released, l.err = true, t.cause
		t.cancelLocked(l, errReleased) // before anybody else can get the key
		if t.handles--; t.handles == 0 {
			if t.phase == held {
				t.phase, t.end = released, t.lease.Deadline()
			}
			l.err = cmp.Or(t.cause, errNotReleased) // if the store panics
			l.err = t.releaseUnlocked(func() error { return t.finish(ctx) })
		}
	case l.err != nil && !isLoss(l.err): // an earlier Release had an unknown outcome
		l.err = t.releaseUnlocked(func() error { return t.lease.Release(ctx) })
	}
	return l.err
}

var errNotReleased = fmt.Errorf("%w: the release did not end", ErrUnavailable)

// releaseUnlocked calls release without t.mu. Meanwhile, other calls of Release wait.
func (t *tenure) releaseUnlocked(release func() error) error {
	t.releasing = true
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.releasing = false
		t.releaseDone.Broadcast()
	}()
	return release()
}

// finish gives up the lease after the release of its last handle.
func (t *tenure) finish(ctx context.Context) (err error) {
	if t.cause != nil { // another goroutine may be inside the gate already
		t.discard(ctx)
		return t.cause
	}
	held := t.held()
	defer func() { t.traceEnd(ctx, held, t.error("release", err)) }()
	keep := t.minHold - held
	err = t.giveUp(ctx, keep)
	switch {
	case err == nil, isLoss(err):
	case keep > 0:
		t.warn("min hold: outcome unknown, the key may stay taken for its ttl", "error", err)
		return nil
	default:
		t.warn("release: outcome unknown", "error", err)
	}
	return err
}
