package exchange

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
)

// A Starter runs f on a goroutine for which Close waits, and reports whether it does, like [kit.Leases.Go].
type Starter = func(f func(ctx context.Context)) bool

// Await runs f, which sends a request without a Batcher. Like [Batcher.Do], it stops waiting at end, or q.Grace after
// ctx has ended. go-redis does not end a request when its context is cancelled, nor, by default, at its deadline. So f
// runs on its own goroutine, with a context that ends only at end. If the client ignores deadlines, its own timeouts
// end f.
func Await(
	ctx context.Context, start Starter, end time.Time, q Request, f func(context.Context) (any, error),
) (any, error) {
	c := newCall(ctx, end, q)
	c.state.Store(sent)
	if !start(func(context.Context) {
		v, err := f(DeadlineContext{ctx, end})
		c.finish(Result{v, err})
	}) {
		return nil, backend.ErrClosed
	}
	return c.Wait()
}

// CloseGrace is how long Close waits for requests in progress, such as those that remove waiters from queues.
const CloseGrace = time.Second
