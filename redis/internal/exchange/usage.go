package exchange

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/calls"
)

// A Usage counts the calls of a store, so that its Close can wait for them.
type Usage struct {
	Calls   calls.Calls
	Closing chan struct{} // closed when Close begins
}

// Begin counts a call in, unless it is invalid, its context has ended or Close has begun. The caller leaves by calls.End.
func (u *Usage) Begin(ctx context.Context, invalid error) error {
	return u.Calls.Enter(ctx, u.Closing, invalid)
}

func (u *Usage) IsClosing() bool {
	select {
	case <-u.Closing:
		return true
	default:
		return false
	}
}

// Await has f make a request that cannot go by lanes, and returns as [Lanes.Do] does. go-redis does not end a request when its context
// is cancelled, nor, by default, at its deadline. So f runs on a goroutine of its own, with a context that ends at end alone; the
// client's timeouts end it where that has no effect.
func (u *Usage) Await(ctx context.Context, end time.Time, q Request, f func(context.Context) (any, error)) (any, error) {
	c := newCall(ctx, end, q)
	c.state.Store(sent)
	if !u.Calls.Background(func() {
		v, err := f(DeadlineContext{context.WithoutCancel(ctx), end})
		c.settle(Result{v, err})
	}) {
		return nil, backend.ErrClosed
	}
	return c.Wait()
}

// CloseGrace is how long Close waits for requests under way, such as waiters leaving their queues.
const CloseGrace = time.Second
