package memcached

import (
	"context"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// operation runs f, which sends requests on one connection and reads their replies. If the connection breaks, f runs
// again on another connection. limit bounds all runs together; if it is 0 or longer than Options.Timeout,
// Options.Timeout applies. unanswered means that an earlier run may have changed something without a reply; f receives
// it, too.
func operation[T any](
	ctx context.Context, b *Backend, limit time.Duration, f func(c *connection, unanswered bool) (T, error),
) (v T, unanswered bool, err error) {
	timeout := b.options.Timeout
	if limit > 0 {
		timeout = min(timeout, limit)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pending := false // after the latest run
	repeat := kit.Repeat{
		Timeout: timeout, Attempts: 4,
		Pause: kit.Pause{Min: time.Millisecond, Max: 100 * time.Millisecond},
		Classify: func(err error) (o kit.Outcome, passing bool) {
			switch passing = broken(err) && !kit.Ended(limited); {
			case isAnswer(err):
				return kit.Answered, false
			case pending:
				return kit.Unknown, passing
			}
			return kit.NotSent, passing
		},
	}
	unanswered, err = repeat.Do(ctx, func(unanswered bool) (err error) {
		pending, err = b.pool.do(limited, func(c *connection) (err error) {
			v, err = f(c, unanswered)
			return err
		})
		if err = explain(err); err == nil || isAnswer(err) {
			return err
		}
		if broken(err) {
			b.pool.closeIdle() // the server may have restarted, which broke the idle connections, too
		}
		return unavailable(kit.NotOurs(ctx, err))
	})
	return v, unanswered, err
}
