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

// Begin registers a call, unless the call is invalid, its context has ended or Close has begun. The caller must call Calls.End.
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

// Await runs f, which sends a request without Lanes, and returns as [Lanes.Do] does. go-redis does not end a request when its context
// is cancelled, nor, by default, at its deadline. So f runs on its own goroutine, with a context that ends only at end; if the client
// ignores deadlines, its own timeouts end f.
func (u *Usage) Await(ctx context.Context, end time.Time, q Request, f func(context.Context) (any, error)) (any, error) {
	c := newCall(ctx, end, q)
	c.state.Store(sent)
	if !u.Calls.Background(func() {
		v, err := f(DeadlineContext{context.WithoutCancel(ctx), end})
		c.finish(Result{v, err})
	}) {
		return nil, backend.ErrClosed
	}
	return c.Wait()
}

// CloseGrace is how long Close waits for requests in progress, such as those that remove waiters from queues.
const CloseGrace = time.Second
