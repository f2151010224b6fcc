package backend

import (
	"context"
	"sync/atomic"
	"time"
)

// A bounded context is that of one release: it has its caller's values but not its end, and ends after a timeout, or with base. What
// makes it end is set up when it is first asked for anything, which a store that answers at once never does.
type bounded struct {
	parent context.Context // for its values
	leases *Leases         // for its timeout, from when it is first asked for anything, and its base
	inner  atomic.Pointer[waited]
}

// A waited context is the one that really ends.
type waited struct {
	context.Context
	cancel func() // frees it
}

func (c *bounded) waited() *waited {
	if w := c.inner.Load(); w != nil {
		return w
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.parent), c.leases.timeout)
	stop := context.AfterFunc(c.leases.base, cancel)
	w := &waited{ctx, func() { stop(); cancel() }}
	if c.inner.CompareAndSwap(nil, w) {
		return w
	}
	w.cancel() // another was first
	return c.inner.Load()
}

// cancel frees what was set up. The context is not used afterwards.
func (c *bounded) cancel() {
	if w := c.inner.Load(); w != nil {
		w.cancel()
	}
}

// Deadline implements context.Context.
func (c *bounded) Deadline() (time.Time, bool) { return c.waited().Deadline() }

// Done implements context.Context.
func (c *bounded) Done() <-chan struct{} { return c.waited().Done() }

// Err implements context.Context.
func (c *bounded) Err() error { return c.waited().Err() }

// Value implements context.Context. It is asked by what derives a context too, which then finds the one that ends.
func (c *bounded) Value(key any) any { return c.waited().Value(key) }
