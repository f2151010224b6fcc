package kit

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"
)

// A bounded context is that of a release or a call. That of a release has its caller's values but not its end, and ends
// after a timeout, or with base. That of a call ends with its caller's too, or when Close begins. What makes it end is
// set up when a store first asks for more than values and an error, because many do not: they answer at once, or bound
// their requests themselves.
type bounded struct {
	parent context.Context // for its values; for a call, its end too
	leases *Leases
	inner  atomic.Pointer[waited]
}

// A waited context is the one that really ends.
type waited struct {
	context.Context
	cancel func() // frees it
}

// What stands for a context that is not set up.
var (
	askedOnce = &waited{} // a release's, which has been asked for its error
	ofCall    = &waited{}
)

// callOver stands for the context of a call that has returned.
var callOver = func() *waited {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return &waited{ctx, cancel}
}()

func newCallContext(parent context.Context, s *Leases) *bounded {
	c := &bounded{parent: parent, leases: s}
	c.inner.Store(ofCall)
	return c
}

// isSetUp reports whether w is a context that really ends.
func (w *waited) isSetUp() bool { return w != nil && w != askedOnce && w != ofCall }

func (c *bounded) waited() *waited {
	old := c.inner.Load()
	if old.isSetUp() {
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
		cancel() // now: Err may have returned an error already
	}
	w := &waited{ctx, func() { stop(); cancel() }}
	if c.inner.CompareAndSwap(old, w) {
		return w
	}
	w.cancel() // another was first
	return c.waited()
}

// cancel ends the context of a call, and frees what was set up. That of a release is not used afterwards.
func (c *bounded) cancel() {
	if c.inner.CompareAndSwap(ofCall, callOver) {
		return
	}
	if w := c.inner.Load(); w.isSetUp() {
		w.cancel()
	}
}

// Deadline implements context.Context.
func (c *bounded) Deadline() (time.Time, bool) {
	if c.inner.Load() == ofCall {
		return c.parent.Deadline()
	}
	return c.waited().Deadline()
}

// Done implements context.Context.
func (c *bounded) Done() <-chan struct{} { return c.waited().Done() }

// Err implements context.Context.
func (c *bounded) Err() error {
	switch {
	case c.inner.Load() == ofCall:
		return cmp.Or(c.parent.Err(), c.leases.closing.Err())
	case c.inner.CompareAndSwap(nil, askedOnce):
		return c.leases.base.Err()
	}
	return c.waited().Err()
}

// Value implements context.Context. The context that a store derives from c asks for it too, after Done, and then finds
// the one that ends.
func (c *bounded) Value(key any) any {
	switch w := c.inner.Load(); {
	case w == ofCall, w == callOver:
		return c.parent.Value(key)
	case w.isSetUp():
		return w.Value(key)
	}
	return context.WithoutCancel(c.parent).Value(key)
}
