package kit

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"
)

// A bounded is the context of a release or a call. The context of a release has its caller's values but not its end: it
// ends after a timeout, or with Leases.base. The context of a call ends with its caller's context, or when Close
// begins. The underlying context is created only when a store needs more than values and one Err. Many stores do not,
// because they answer at once or bound their requests themselves.
type bounded struct {
	parent context.Context // for its values; for a call, also its end
	leases *Leases
	inner  atomic.Pointer[underlyingContext]
}

// An underlyingContext is the underlying context, which really ends.
type underlyingContext struct {
	context.Context
	cancel func() // frees its resources
}

// Placeholders for an underlying context that has not been created.
var (
	errCalled = &underlyingContext{} // of a release, after the first Err
	ofCall    = &underlyingContext{} // of a call
)

// callOver is the underlying context of every call that has returned.
var callOver = func() *underlyingContext {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return &underlyingContext{ctx, cancel}
}()

func newCallContext(parent context.Context, s *Leases) *bounded {
	c := &bounded{parent: parent, leases: s}
	c.inner.Store(ofCall)
	return c
}

// created reports whether w is an underlying context, not a placeholder.
func (w *underlyingContext) created() bool { return w != nil && w != errCalled && w != ofCall }

func (c *bounded) underlying() *underlyingContext {
	old := c.inner.Load()
	if old.created() {
		return old
	}
	var ctx context.Context
	var cancel context.CancelFunc
	end := c.leases.base
	if old == ofCall {
		ctx, cancel = context.WithCancel(c.parent)
		end = c.leases.closing
	} else {
		ctx, cancel = context.WithTimeout(context.WithoutCancel(c.parent), c.leases.timeout)
	}
	stop := context.AfterFunc(end, cancel)
	if end.Err() != nil {
		cancel() // at once, because Err may have returned an error already
	}
	w := &underlyingContext{ctx, func() { stop(); cancel() }}
	if c.inner.CompareAndSwap(old, w) {
		return w
	}
	w.cancel() // another goroutine was first
	return c.underlying()
}

// cancel ends the context of a call, and frees the underlying context. The context of a release must not be used
// afterwards.
func (c *bounded) cancel() {
	if c.inner.CompareAndSwap(ofCall, callOver) {
		return
	}
	if w := c.inner.Load(); w.created() {
		w.cancel()
	}
}

// Deadline implements context.Context.
func (c *bounded) Deadline() (time.Time, bool) {
	if c.inner.Load() == ofCall {
		return c.parent.Deadline()
	}
	return c.underlying().Deadline()
}

// Done implements context.Context.
func (c *bounded) Done() <-chan struct{} { return c.underlying().Done() }

// Err implements context.Context.
func (c *bounded) Err() error {
	switch {
	case c.inner.Load() == ofCall:
		return cmp.Or(c.parent.Err(), c.leases.closing.Err())
	case c.inner.CompareAndSwap(nil, errCalled):
		return c.leases.base.Err()
	}
	return c.underlying().Err()
}

// Value implements context.Context. When a store derives a context from c, package context calls Done and then Value,
// which must find the underlying context.
func (c *bounded) Value(key any) any {
	switch w := c.inner.Load(); {
	case w == ofCall, w == callOver:
		return c.parent.Value(key)
	case w.created():
		return w.Value(key)
	}
	return context.WithoutCancel(c.parent).Value(key)
}
