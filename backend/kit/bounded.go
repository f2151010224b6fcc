package kit

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"
)

// A bounded is the context of a call or of a release. The context of a call ends with its caller's context, or when
// Close begins. The context of a release has its caller's values but not its end: it ends after a timeout, or with
// Leases.base. The underlying context is created only when a store needs a channel that closes. Many stores do not,
// because they answer at once or bound their requests themselves.
type bounded struct {
	parent context.Context // for its values; for a call, also its end
	leases *Leases
	until  time.Duration // when a release ends at the latest, counted from Leases.began; 0 for a call
	inner  atomic.Pointer[underlyingContext]
}

// An underlyingContext is the underlying context, which really ends.
type underlyingContext struct {
	context.Context
	cancel func() // frees its resources
}

// returned is the underlying context of a call or release that has returned without creating one.
var returned = func() *underlyingContext {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return &underlyingContext{ctx, cancel}
}()

func (c *bounded) isCall() bool { return c.until == 0 }

func (c *bounded) underlying() *underlyingContext {
	if w := c.inner.Load(); w != nil {
		return w
	}
	var ctx context.Context
	var cancel context.CancelFunc
	end := c.leases.base
	if c.isCall() {
		ctx, cancel = context.WithCancel(c.parent)
		end = c.leases.closing
	} else {
		ctx, cancel = context.WithDeadline(context.WithoutCancel(c.parent), c.leases.began.Add(c.until))
	}
	stop := context.AfterFunc(end, cancel)
	if end.Err() != nil {
		cancel() // at once, because Err may have returned an error already
	}
	w := &underlyingContext{ctx, func() { stop(); cancel() }}
	if !c.inner.CompareAndSwap(nil, w) {
		w.cancel() // another goroutine was first, or the call has returned
	}
	return c.inner.Load()
}

// cancel ends the context, and frees the underlying context.
func (c *bounded) cancel() {
	if !c.inner.CompareAndSwap(nil, returned) {
		c.inner.Load().cancel()
	}
}

// Deadline implements context.Context.
func (c *bounded) Deadline() (time.Time, bool) {
	if c.isCall() {
		return c.parent.Deadline()
	}
	return c.leases.began.Add(c.until), true
}

// Done implements context.Context.
func (c *bounded) Done() <-chan struct{} { return c.underlying().Done() }

// Err implements context.Context.
func (c *bounded) Err() error {
	switch w := c.inner.Load(); {
	case w != nil:
		return w.Err()
	case c.isCall():
		return cmp.Or(c.parent.Err(), c.leases.closing.Err())
	case time.Since(c.leases.began) >= c.until:
		return context.DeadlineExceeded
	}
	return c.leases.base.Err()
}

// Value implements context.Context. When a store derives a context from c, package context calls Done and then Value,
// which must find the underlying context.
func (c *bounded) Value(key any) any {
	switch w := c.inner.Load(); {
	case w != nil && w != returned:
		return w.Value(key)
	case c.isCall():
		return c.parent.Value(key)
	}
	return context.WithoutCancel(c.parent).Value(key)
}
