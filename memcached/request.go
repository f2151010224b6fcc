package memcached

import (
	"context"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

// answerGrace is how much later than its context a step may return that has a request under way.
const answerGrace = 100 * time.Millisecond

// A transport makes requests.
type transport interface {
	// do runs f, whose requests go to the server by c, and returns what it returned; errNoAnswer if it is still running
	// at end or answerGrace after the end of ctx. In that case late, if not nil, runs when f has ended, unless do has
	// made it end.
	do(ctx context.Context, end time.Time, late func(), f func(c *memcache.Client) error) error
	close()
}

// A step is requests that belong together.
type step struct {
	limit time.Duration // for all attempts, if shorter than Options.Timeout
	late  func()        // see transport
}

// ask takes a step, and takes it again on a new connection if the connection breaks, all within its limit and ctx.
// unanswered tells that an attempt may have changed something without an answer; f is told so, too. f may run on after
// ask has returned, and so keeps what it finds to itself until it returns it.
func ask[T any](
	ctx context.Context, b *Backend, s step, f func(c *memcache.Client, unanswered bool) (T, error),
) (v T, unanswered bool, err error) {
	timeout := b.options.Timeout
	if s.limit > 0 {
		timeout = min(timeout, s.limit)
	}
	end := time.Now().Add(timeout)
	pause := backend.Pause{Min: 5 * time.Millisecond, Max: 100 * time.Millisecond}
	const attempts = 4
	for i := 1; ; i++ {
		v, err = attemptOnce(ctx, b.transport, end, s.late, unanswered, f)
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

func attemptOnce[T any](
	ctx context.Context, t transport, end time.Time, late func(), unanswered bool,
	f func(c *memcache.Client, unanswered bool) (T, error),
) (T, error) {
	var found T
	err := t.do(ctx, end, late, func(c *memcache.Client) (err error) {
		found, err = f(c, unanswered)
		return err
	})
	if err == errNoAnswer { // f may be running, and write found
		var none T
		return none, err
	}
	return found, explain(ctx, err)
}
