package kit

import (
	"context"
	"sync/atomic"
	"time"
)

// A bounded is the context of a release. It has its caller's values but not its end: it ends after a timeout, or with
// Leases.base. The underlying context is created only when a store needs more than values and one Err. Many stores do
// not, because they answer at once or bound their requests themselves.
type bounded struct {
	parent context.Context // for its values
	leases *Leases
	inner  atomic.Pointer[underlyingContext]
}

// An underlyingContext is the underlying context, which really ends.
type underlyingContext struct {
	context.Context
	cancel func() // frees its resources
}

// errCalled stands for an underlying context that has not been created, after the first Err.
var errCalled = new(underlyingContext)

// created reports whether w is an underlying context, not a placeholder.
func (w *underlyingContext) created() bool { return w != nil && w != errCalled }

func (c *bounded) underlying() *underlyingContext {
	old := c.inner.Load()
	if old.created() {
		return old
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.parent), c.leases.timeout)
	stop := context.AfterFunc(c.leases.base, cancel)
	if c.leases.base.Err() != nil {
		cancel() // at once, because Err may have returned an error already
	}
	w := &underlyingContext{ctx, func() { stop(); cancel() }}
	if c.inner.CompareAndSwap(old, w) {
		return w
	}
	w.cancel() // another goroutine was first
	return c.underlying()
}

// cancel frees the underlying context. The context must not be used afterwards.
func (c *bounded) cancel() {
	if w := c.inner.Load(); w.created() {
		w.cancel()
	}
}

// Deadline implements context.Context.
func (c *bounded) Deadline() (time.Time, bool) { return c.underlying().Deadline() }

// Done implements context.Context.
func (c *bounded) Done() <-chan struct{} { return c.underlying().Done() }

// Err implements context.Context.
func (c *bounded) Err() error {
	if c.inner.CompareAndSwap(nil, errCalled) {
		return c.leases.base.Err()
	}
	return c.underlying().Err()
}

// Value implements context.Context. When a store derives a context from c, package context calls Done and then Value,
// which must find the underlying context.
func (c *bounded) Value(key any) any {
	if w := c.inner.Load(); w.created() {
		return w.Value(key)
	}
	return context.WithoutCancel(c.parent).Value(key)
}
