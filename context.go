package lock

import (
	"context"
	"fmt"
	"time"
)

// errReleased is the cause of a context that ended by Release.
var errReleased = fmt.Errorf("lock: %w: %w", ErrReleased, context.Canceled)

// Context returns a child of parent that also ends when the lease is lost (the cause matches ErrLost) or released. The
// child carries the lease: acquiring the key again under it is re-entry. parent need not be the context of Acquire.
// Each call derives another context; the lease keeps it until the context has ended.
func (l *Lease) Context(parent context.Context) context.Context {
	outer, _ := parent.Value(carrierKey{}).(*leaseContext)
	c := &leaseContext{lease: l, outer: outer}
	var ctx context.Context
	ctx, c.cancel = context.WithCancelCause(context.WithValue(parent, carrierKey{}, c))
	t := l.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.cause != nil && (!l.released || isLoss(l.err)):
		c.cancel(t.lostErr())
	case l.released:
		c.cancel(errReleased)
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

// carriedLease returns the live lease of this Locker on key that ctx carries, nil if there is none.
func (l *Locker) carriedLease(ctx context.Context, key string) *Lease {
	c, _ := ctx.Value(carrierKey{}).(*leaseContext)
	for ; c != nil; c = c.outer {
		if t := c.lease.tenure; t.locker == l && t.gate.key == key && t.is(held) {
			return c.lease
		}
	}
	return nil
}

// refuseReentry returns the error for a request with these terms that must not re-enter l, because it would wait for l.
// It returns nil if the request may re-enter l.
func (l *Lease) refuseReentry(terms *settings) error {
	switch shared := l.tenure.gate.shared; {
	case shared && !terms.shared:
		return fmt.Errorf("%w as shared: a shared lease cannot become exclusive", ErrDeadlock)
	case !shared && terms.shared:
		return fmt.Errorf("%w as exclusive: an exclusive lease cannot become shared", ErrDeadlock)
	case !terms.reentrant:
		return fmt.Errorf("%w, without Reentrant", ErrDeadlock)
	}
	return nil
}

// reenter returns another handle on the lease's tenure, nil if the tenure has ended meanwhile, even if the process has
// just continued after a pause and lose has not run yet.
func (l *Lease) reenter() *Lease {
	t := l.tenure
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase != held || !time.Now().Before(t.lease.Deadline()) {
		return nil
	}
	t.handles++
	return &Lease{tenure: t, reentered: true}
}
