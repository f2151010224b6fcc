package redis

import (
	"context"
	"time"

	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

// repeatPause is the pause before a request is repeated.
var repeatPause = kit.Pause{Min: 5 * time.Millisecond, Max: 100 * time.Millisecond}

// eval sends a request, and retries it after a temporary error, within Options.Timeout and ctx. Requests must be safe to
// repeat. eval returns promptly when ctx ends, whatever the client does. unanswered reports whether an attempt without a
// reply may have run, or may still run.
func (b *Backend) eval(ctx context.Context, q exchange.Request) (v any, unanswered bool, err error) {
	end := time.Now().Add(b.options.Timeout)
	repeat := kit.Repeat{
		Timeout: b.options.Timeout, Attempts: b.attempts, Pause: repeatPause,
		Classify: func(err error) (kit.Outcome, bool) {
			return outcomeOf(err), exchange.Passing(err) && time.Now().Before(end)
		},
	}
	unanswered, err = repeat.Do(ctx, func(unanswered bool) (err error) {
		if unanswered && q.RepeatArg != "" {
			q.Args = append(q.Args[:len(q.Args)-1:len(q.Args)-1], q.RepeatArg)
		}
		v, err = b.deliver(ctx, end, q)
		return err
	})
	if err != nil {
		return nil, unanswered, exchange.Unavailable(ctx, err)
	}
	return v, unanswered, nil
}

// outcomeOf returns whether err means that the request was answered, was not sent, or may have run.
func outcomeOf(err error) kit.Outcome {
	switch {
	case exchange.IsReply(err):
		return kit.Answered
	case exchange.Definite(err):
		return kit.NotSent
	}
	return kit.Unknown
}

// deliver sends a request once.
func (b *Backend) deliver(ctx context.Context, end time.Time, q exchange.Request) (any, error) {
	if b.batcher != nil {
		return b.batcher.Do(ctx, end, q)
	}
	return exchange.AwaitReply(ctx, b.leases.Go, end, q, func(ctx context.Context) (any, error) {
		r := b.sendToNode(ctx, []exchange.Request{q})[0]
		return r.V, r.Err
	})
}

// deliverAll sends each request once, concurrently and within its own limit. A server that hangs delays only its own
// requests.
func (b *Backend) deliverAll(ctx context.Context, list []exchange.Request) []exchange.Result {
	if b.batcher != nil {
		return b.batcher.DoAll(ctx, list)
	}
	return b.sendByNode(ctx, list)
}
