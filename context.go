package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errReleased is the cause of a context that ended by Release.
var errReleased = fmt.Errorf("lock: %w: %w", ErrReleased, context.Canceled)

// Context returns a child of parent that also ends when the lease is lost (context.Cause then matches ErrLost) or
// released (ErrReleased). The child carries the lease: whoever acquires the key again with this context, or a child of
// it, re-enters the lease, see Reentrant. parent need not be the context of Acquire. Each call derives another context,
// to which the lease refers until the context has ended.
func (l *Lease) Context(parent context.Context) context.Context {
	outer, _ := parent.Value(carrierKey{}).(*leaseContext)
	c := &leaseContext{lease: l, outer: outer}
	var ctx context.Context
	ctx, c.cancel = context.WithCancelCause(context.WithValue(parent, carrierKey{}, c))
	t := l.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	switch ended := l.endErrLocked(); {
	case errors.Is(ended, ErrReleased):
		c.cancel(errReleased)
	case ended != nil:
		c.cancel(t.error("hold", ended))
	case ctx.Err() == nil:
		if t.derived == nil {
			t.derived = make(map[*leaseContext]struct{})
		}
		t.derived[c] = struct{}{}
		c.detach = context.AfterFunc(parent, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			delete(t.derived, c)
		})
	}
	return ctx
}

// carrierKey is the key of the value that a context carries for re-entry: its *leaseContext.
type carrierKey struct{}

// reenter returns another handle on the live lease of this Locker on key that ctx carries. It returns nil if there is
// none. The error means that the request must not re-enter the lease, and would wait for it.
func (l *Locker) reenter(ctx context.Context, key string, terms *settings) (*Lease, error) {
	c, _ := ctx.Value(carrierKey{}).(*leaseContext)
	for ; c != nil; c = c.outer {
		t := c.lease.tenure
		if t.locker != l || t.gate.key != key || !t.is(held) {
			continue
		}
		switch shared := t.gate.shared; {
		case shared && !terms.shared:
			return nil, fmt.Errorf("%w as shared: a shared lease cannot become exclusive", ErrDeadlock)
		case !shared && terms.shared:
			return nil, fmt.Errorf("%w as exclusive: an exclusive lease cannot become shared", ErrDeadlock)
		case !terms.reentrant:
			return nil, fmt.Errorf("%w, without Reentrant", ErrDeadlock)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		// The process may have just continued after a pause, and lose may not have run yet.
		if t.phase != held || !time.Now().Before(t.lease.Deadline()) {
			return nil, nil
		}
		t.handles++
		return &Lease{tenure: t}, nil
	}
	return nil, nil
}
