package memcached

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
)

// answerGrace is how much later than its context a step may return that has a request under way.
const answerGrace = 100 * time.Millisecond

// ask takes a step, and takes it again on a new connection if the connection breaks, all within its limit and ctx.
// unanswered tells that an attempt may have changed something without an answer; f is told so, too. A limit of 0 is Options.Timeout,
// which none exceeds.
func ask[T any](
	ctx context.Context, b *Backend, limit time.Duration, f func(c *lane, unanswered bool) (T, error),
) (v T, unanswered bool, err error) {
	timeout := b.options.Timeout
	if limit > 0 {
		timeout = min(timeout, limit)
	}
	end := time.Now().Add(timeout)
	pause := backend.Pause{Min: 5 * time.Millisecond, Max: 100 * time.Millisecond}
	const attempts = 4
	for i := 1; ; i++ {
		v = *new(T)
		err = explain(b.lanes.do(ctx, end, func(c *lane) (err error) {
			v, err = f(c, unanswered)
			return err
		}))
		if err == nil || isAnswer(err) {
			return v, unanswered, err
		}
		unanswered = unanswered || !harmless(err)
		if backend.Ended(ctx) {
			return v, unanswered, backend.ContextError(ctx, err)
		}
		d := pause.Next(0)
		if i == 1 && !unreached(err) {
			d = 0 // the server has closed a connection that was idle
		}
		if i == attempts || !broken(err) || time.Until(end) < d {
			return v, unanswered, unavailable(err)
		}
		if err := backend.Sleep(ctx, d); err != nil {
			return v, unanswered, err
		}
	}
}
