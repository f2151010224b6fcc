package backend

import (
	"context"
	"sync/atomic"
	"time"
)

// A bounded context is that of one release: it has its caller's values but not its end, and ends after a timeout, or with base. What
// makes it end is set up when it is first asked for anything but values and, once, its error, as many do before they begin. A store
// that answers at once, or bounds its requests itself, does not ask for more.
type bounded struct {
	parent context.Context // for its values
	leases *Leases         // for its timeout, from when it is set up, and its base
	inner  atomic.Pointer[waited]
}

// A waited context is the one that really ends.
type waited struct {
	context.Context
	cancel func() // frees it
}

// askedOnce is not set up yet, but has been asked for its error.
var askedOnce = &waited{cancel: func() {}}

func (c *bounded) waited() *waited {
	old := c.inner.Load()
	if old != nil && old != askedOnce {
		return old
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.parent), c.leases.timeout)
	stop := context.AfterFunc(c.leases.base, cancel)
	if c.leases.base.Err() != nil {
		cancel() // now: Err has told it already, perhaps
	}
	w := &waited{ctx, func() { stop(); cancel() }}
	if c.inner.CompareAndSwap(old, w) {
		return w
	}
	w.cancel() // another was first
	return c.waited()
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
func (c *bounded) Err() error {
	if c.inner.CompareAndSwap(nil, askedOnce) {
		return c.leases.base.Err()
	}
	return c.waited().Err()
}

// Value implements context.Context. It is asked by what derives a context too, after Done, and then finds the one that ends.
func (c *bounded) Value(key any) any {
	if w := c.inner.Load(); w != nil && w != askedOnce {
		return w.Value(key)
	}
	return context.WithoutCancel(c.parent).Value(key)
}
