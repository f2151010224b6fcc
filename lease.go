package lock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Key returns the key that is held, with the Locker's prefix.
func (l *Lease) Key() string { return l.tenure.hold.gate.key }

// Owner returns the unique name under which the store knows the holder. Inside one process, holders that a lease is
// handed on to share it.
func (l *Lease) Owner() string { return l.tenure.hold.owner }

// Shared reports whether the lease is shared.
func (l *Lease) Shared() bool { return l.tenure.hold.gate.shared }

// Token returns the fencing token. It is higher than that of every earlier holder of the key, within the scope that
// Guarantees.Fencing names, and below 2^63. It is the store's number times 256, plus how often the lease has been
// handed on inside the process. It is 0 if the store has no tokens.
func (l *Lease) Token() uint64 { return l.tenure.token }

// Deadline returns the time until which the lease is exclusive. Renewal moves it.
func (l *Lease) Deadline() time.Time { return l.tenure.deadline() }

// Lost returns a channel that is closed when the lease ends without being released, at its deadline at the latest. It
// is never closed after the last Release. A lost key is free for others, in this process too, whether or not this
// holder calls Release.
func (l *Lease) Lost() <-chan struct{} { return l.tenure.lostChan() }

// Err returns nil while the lease is exclusive. It looks at the clock at the moment of the call, so that it is right
// even after a long pause. Later it is ErrReleased if the holder has released the lease, and ErrLost if the lease ended
// before that.
func (l *Lease) Err() error { return l.tenure.error("hold", l.over()) }

// over is ErrReleased or ErrLost, nil while the lease is exclusive.
func (l *Lease) over() error {
	l.mu.Lock()
	released, lost := l.released, l.err != nil && l.done
	l.mu.Unlock()
	t := l.tenure
	t.mu.Lock()
	lost = lost || t.why != nil
	t.mu.Unlock()
	switch {
	case released && !lost:
		return ErrReleased
	case !lost && t.isHeld() && time.Now().Before(t.deadline()):
		return nil
	}
	return ErrLost
}

// Renew extends the lease to ttl from now, and automatic renewal continues with ttl. A maximum hold limits it: where
// the lease has all that it may get, Renew asks for nothing and returns nil. ErrLost means that the lease has ended,
// ErrReleased that its holder has released it. After any other error the outcome is unknown, and the earlier of the old
// and the new deadline applies. A Renew without an answer returns in time for automatic renewal to try.
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) error {
	return l.tenure.error("renew", l.renew(ctx, ttl))
}

func (l *Lease) renew(ctx context.Context, ttl time.Duration) error {
	if err := backend.ValidateTTL(ttl); err != nil {
		return err
	}
	if err := l.over(); err != nil {
		if errors.Is(err, ErrReleased) {
			return err
		}
		return l.tenure.hold.locker.endedErr()
	}
	caller := ctx
	ctx, finish, err := l.tenure.beginRenew(ctx)
	if err != nil {
		return err
	}
	defer finish()
	h := l.tenure.hold
	h.mu.Lock()
	asked, ok := h.renewToLocked(ttl)
	h.mu.Unlock()
	if !ok {
		return nil // its maximum hold: the deadline that it has is its last
	}
	if h.locker.renewals.renews(h) { // it waits for this one
		var cancel context.CancelFunc
		left := min(time.Until(h.lease.Deadline()), h.locker.effective(asked)) // without an answer, the earlier deadline applies
		ctx, cancel = context.WithTimeoutCause(ctx, attemptTime(left), errNoAnswer)
		defer cancel()
	}
	if err := h.lease.Renew(ctx, asked); err != nil {
		h.locker.renewals.sooner(h)
		if over := l.over(); errors.Is(over, ErrReleased) && kit.IsContextError(err) && !kit.Ended(caller) {
			return over // Release has cut it short
		}
		return kit.NotOurs(caller, err)
	}
	h.mu.Lock()
	h.ttl = ttl
	h.mu.Unlock()
	h.locker.renewals.again(h)
	return nil
}

// errNoAnswer is the cause of a Renew's end that left time for automatic renewal to try.
var errNoAnswer = errors.New("no answer within a third of what is left of the lease")

// beginRenew waits until no other Renew is under way, and keeps the tenure from ending before finish is called.
func (t *tenure) beginRenew(ctx context.Context) (_ context.Context, finish func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.renewing != nil {
		other := t.renewing
		t.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			t.mu.Lock()
			return nil, nil, kit.ContextError(ctx, nil)
		}
		t.mu.Lock()
	}
	switch {
	case t.why != nil:
		return nil, nil, t.why
	case t.over:
		return nil, nil, ErrReleased
	}
	finished := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	t.renewing, t.giveUp = finished, cancel
	return ctx, func() {
		cancel()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.renewing, t.giveUp = nil, nil
		close(finished)
	}, nil
}

// Release hands the lease to the next goroutine that waits for the key, or gives it back to the store. It works even if
// ctx has ended, and its time is bounded. nil means that the lease is released; a second call also returns nil. ErrLost
// means that the lease had already ended, so that others may have held the key meanwhile. After any other error the
// outcome is unknown, and the key is free by its TTL at the latest. With Reentrant, only the last Release of a key
// releases the lease.
func (l *Lease) Release(ctx context.Context) error {
	return l.tenure.error("release", l.release(ctx))
}

func (l *Lease) release(ctx context.Context) error {
	l.mu.Lock()
	for l.releasing { // bounded by the store's timeout. Behind a mutex, the time of a synctest bubble would stand still
		if l.finished == nil {
			l.finished = sync.NewCond(&l.mu)
		}
		l.finished.Wait()
	}
	done, err, again := l.done, l.err, l.released
	l.released, l.releasing = true, !done
	l.mu.Unlock()
	switch {
	case done:
		return err
	case again: // an earlier call had an unknown outcome
		err = l.tenure.hold.lease.Release(ctx)
	default:
		err = l.tenure.drop(ctx, l)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = err == nil || errors.Is(err, ErrLost) || errors.Is(err, ErrClosed)
	l.err = err
	l.releasing = false
	if l.finished != nil {
		l.finished.Broadcast()
	}
	return err
}

// drop takes one handle off the tenure, and ends it with the last.
func (t *tenure) drop(ctx context.Context, l *Lease) error {
	h, locker := t.hold, t.hold.locker
	deadline := h.lease.Deadline()
	t.mu.Lock()
	t.cancelLocked(l, errReleased) // before anybody else can get the key
	t.count--
	last := t.count == 0
	if last && !t.over {
		t.over = true
		t.end = deadline
	}
	lost := t.why
	renewing := t.renewing
	if last && renewing != nil {
		t.giveUp()
	}
	t.mu.Unlock()
	if last && renewing != nil {
		<-renewing // it must not prolong the next holder's lease
	}
	switch {
	case !last:
		return lost
	case lost != nil: // another may be inside the gate already
		locker.discard(ctx, h)
		return lost
	}
	if locker.traces.lease == nil {
		return t.finish(ctx)
	}
	held := t.held()
	err := t.finish(ctx)
	t.traceEnd(ctx, held, errors.Is(err, ErrLost) || errors.Is(err, ErrClosed), t.error("release", err))
	return err
}

// finish gives up what the last handle has held.
func (t *tenure) finish(ctx context.Context) error {
	h, locker := t.hold, t.hold.locker
	if t.minHold > 0 {
		if left := t.minHold - t.held(); left > 0 {
			return locker.keep(ctx, h, left)
		}
	}
	err := locker.giveUp(ctx, h)
	if err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrClosed) {
		locker.defaults.logger.Warn("release: outcome unknown", "key", h.gate.key, "backend", locker.name,
			"owner", h.owner, "error", err)
	}
	return err
}
