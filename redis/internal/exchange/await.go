package exchange

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
)

// A Starter runs f on a goroutine for which Close waits, and reports whether it does, like [kit.Leases.Go].
type Starter = func(f func(ctx context.Context)) bool

// Await runs f, which makes requests without a Batcher. It stops waiting after limit, or when ctx has ended, whichever
// is first. go-redis does not end a request when its context is cancelled, nor, by default, at its deadline. So f runs
// on its own goroutine. If the client ignores deadlines, its own timeouts end f.
func Await[T any](
	ctx context.Context, start Starter, limit time.Duration, f func(context.Context) (T, error),
) (T, error) {
	v, err := AwaitReply(ctx, start, time.Now().Add(limit), Request{}, func(ctx context.Context) (any, error) {
		return f(ctx)
	})
	result, _ := v.(T)
	return result, err
}

// AwaitReply runs send, which sends q, like Await. Like [Batcher.Do], it stops waiting at end, or q.Grace after ctx has
// ended.
func AwaitReply(
	ctx context.Context, start Starter, end time.Time, q Request, send func(context.Context) (any, error),
) (any, error) {
	c := newCall(ctx, end, q)
	c.state.Store(sent)
	if !start(func(context.Context) {
		v, err := send(DeadlineContext{ctx, end})
		c.finish(Result{v, err})
	}) {
		return nil, backend.ErrClosed
	}
	return c.wait()
}
