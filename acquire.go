package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/anylock/lock/backend"
)

// Acquire waits until key is granted, or ctx ends, or WithWait has passed. The lease renews itself until Release, which
// the caller owes.
//
// Errors: ErrDeadlock if key is held under ctx already, without Reentrant; ErrHeld after WithWait; the context's error,
// which leaves nothing behind; ErrInvalid, ErrClosed. Any other error is the store's or the network's; what it may have
// left is cleaned up in the background, at the latest by the TTL. A store that cannot be reached at first is an error at
// once; an outage while waiting is outlived for a time.
func (l *Locker) Acquire(ctx context.Context, key string, opts ...AcquireOption) (*Lease, error) {
	lease, err := l.acquire(ctx, key, opts, true)
	if err != nil {
		return nil, l.error("acquire", l.defaults.prefix+key, err)
	}
	return lease, nil
}

// TryAcquire is Acquire that does not wait: a key that is busy is ErrHeld, with a *HeldError that names the holder where
// the store knows it.
func (l *Locker) TryAcquire(ctx context.Context, key string, opts ...AcquireOption) (*Lease, error) {
	lease, err := l.acquire(ctx, key, opts, false)
	if err != nil {
		return nil, l.error("acquire", l.defaults.prefix+key, err)
	}
	return lease, nil
}

// Do holds key while f runs. The context given to f is the lease's: it ends when the lock is lost, and f should then stop
// writing. Do returns f's error, joined with ErrLost if the lease had ended before f did, or with the error of the
// release. The lease is released when f panics too.
func (l *Locker) Do(ctx context.Context, key string, f func(ctx context.Context, lease *Lease) error, opts ...AcquireOption) (err error) {
	lease, err := l.Acquire(ctx, key, opts...)
	if err != nil {
		return err
	}
	defer func() {
		if rerr := lease.Release(ctx); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}()
	return f(lease.Context(), lease)
}

func (l *Locker) acquire(ctx context.Context, key string, opts []AcquireOption, wait bool) (*Lease, error) {
	full, err := l.fullKey(key)
	if err != nil {
		return nil, err
	}
	terms := &l.defaults
	if len(opts) > 0 {
		if terms, err = terms.with(opts); err != nil {
			return nil, err
		}
	}
	if err := backend.ContextError(ctx, nil); err != nil {
		return nil, err
	}
	if outer := heldUnder(ctx, l, full); outer != nil {
		if !terms.reentrant {
			return nil, ErrDeadlock
		}
		if lease := outer.reenter(ctx); lease != nil {
			return lease, nil
		}
	}
	if !wait || !terms.limited {
		return l.contend(ctx, ctx, full, terms, wait)
	}
	if terms.wait == 0 {
		return l.contend(ctx, ctx, full, terms, false)
	}
	limited, cancel := context.WithTimeout(ctx, terms.wait)
	defer cancel()
	lease, err := l.contend(ctx, limited, full, terms, true)
	// Stores go by the clock, which may be ahead of the context's timer.
	if err != nil && backend.Ended(limited) && !backend.Ended(ctx) && errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%w: not granted within %v", ErrHeld, terms.wait)
	}
	return lease, err
}

// contend passes the key's gate and gets the lease, by hand-off or from the store. Waiting ends with waitCtx; the lease
// travels in a child of ctx.
func (l *Locker) contend(ctx, waitCtx context.Context, full string, terms *settings, wait bool) (*Lease, error) {
	g, handed, err := l.enter(waitCtx, full, terms, wait)
	if err != nil {
		return nil, err
	}
	if handed != nil {
		if lease := l.begin(ctx, g, handed, new(stay), terms); lease != nil {
			return lease, nil
		}
		l.discard(waitCtx, handed) // lost on its way from hand to hand: ask the store
	}
	// A grant that took longer than its TTL to arrive is no use, but the store works: ask again, not for ever.
	const most = 5
	for attempt := 1; ; attempt++ {
		got, err := l.ask(waitCtx, full, terms, wait)
		if err == nil {
			if lease := l.begin(ctx, g, &got.hold, &got.stay, terms); lease != nil {
				return lease, nil
			}
			l.discard(waitCtx, &got.hold)
			err = l.endedErr()
		}
		if !wait || !errors.Is(err, ErrLost) || attempt == most {
			l.leave(g)
			return nil, err
		}
		l.defaults.logger.Warn("grant arrived too late, asking again", "key", full, "backend", l.name,
			"ttl", terms.leaseTTL())
	}
}

// ask gets a lease from the store.
func (l *Locker) ask(ctx context.Context, full string, terms *settings, wait bool) (*grant, error) {
	ttl := terms.leaseTTL()
	owner := backend.NewOwner()
	lease, err := l.backend.Acquire(ctx, backend.Request{Key: full, Owner: owner, TTL: ttl, Wait: wait})
	if err == nil {
		return l.newGrant(lease, owner, ttl), nil
	}
	if held := (*HeldError)(nil); errors.As(err, &held) {
		holder := held.Holder
		holder.Token <<= handoffBits
		return nil, &HeldError{Holder: holder}
	}
	return nil, err
}

// endedErr is why a lease that was just granted is over already.
func (l *Locker) endedErr() error {
	select {
	case <-l.done:
		return ErrClosed
	default:
		return ErrLost
	}
}
