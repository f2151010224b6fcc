package memcached

import (
	"context"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// operation runs f, which sends requests on one connection and reads their replies. If the connection breaks, f runs
// again on another one, all within limit and ctx. A limit of 0 means Options.Timeout, which is also the longest.
// unanswered reports that an earlier run may have changed something without a reply; f gets it too.
func operation[T any](
	ctx context.Context, b *Backend, limit time.Duration, f func(c *connection, unanswered bool) (T, error),
) (v T, unanswered bool, err error) {
	timeout := b.options.Timeout
	if limit > 0 {
		timeout = min(timeout, limit)
	}
	end := time.Now().Add(timeout)
	limited, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	pause := kit.Pause{Min: 5 * time.Millisecond, Max: 100 * time.Millisecond}
	const attempts = 4
	for i := 1; ; i++ {
		v = *new(T)
		pending, err := b.pool.do(limited, func(c *connection) (err error) {
			v, err = f(c, unanswered)
			return err
		})
		err = kit.NotOurs(ctx, explain(err))
		if err == nil || isAnswer(err) {
			return v, unanswered, err
		}
		unanswered = unanswered || pending
		if kit.Ended(ctx) {
			return v, unanswered, kit.ContextError(ctx, err)
		}
		if broken(err) {
			b.pool.closeIdle() // their server has probably restarted, too
		}
		d := pause.Next(0)
		if i == 1 {
			d = 0 // the server had closed an idle connection
		}
		if i == attempts || !broken(err) || time.Until(end) < d {
			return v, unanswered, unavailable(err)
		}
		if err := kit.Sleep(ctx, d); err != nil {
			return v, unanswered, err
		}
	}
}
