package redis

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

// eval sends a request, and repeats it after a temporary error, within its limit and ctx: a repeated script returns the same reply.
// It returns promptly when ctx ends, whatever the client does. unanswered reports whether the request may have run, or may still
// run, without a reply.
func (b *Backend) eval(ctx context.Context, q exchange.Request) (v any, unanswered bool, err error) {
	timeout := b.options.Timeout
	if q.Limit > 0 {
		timeout = min(timeout, q.Limit)
	}
	end := time.Now().Add(timeout)
	pause := kit.Pause{Min: 5 * time.Millisecond, Max: 100 * time.Millisecond}
	const attempts = 4
	for i := 1; ; i++ {
		v, err = b.deliver(ctx, end, q)
		if err == nil {
			return v, unanswered, nil
		}
		unanswered = unanswered || !exchange.Definite(err, b.lanes != nil)
		if kit.Ended(ctx) {
			return nil, unanswered, kit.ContextError(ctx, err)
		}
		d := pause.Next(0)
		// While a slot moves to another server, the servers refuse its scripts.
		last := i >= attempts && !redis.HasErrorPrefix(err, "TRYAGAIN")
		if last || !exchange.Passing(err) || time.Until(end) < d {
			return nil, unanswered, exchange.Unavailable(err)
		}
		if err := kit.Sleep(ctx, d); err != nil {
			return nil, unanswered, err
		}
	}
}

// deliver sends a request once.
func (b *Backend) deliver(ctx context.Context, end time.Time, q exchange.Request) (any, error) {
	if b.lanes == nil {
		return b.usage.Await(ctx, end, q, func(ctx context.Context) (any, error) {
			r := b.carry(ctx, []exchange.Request{q})[0]
			return r.V, r.Err
		})
	}
	if !b.usage.Calls.Begin() {
		return nil, backend.ErrClosed
	}
	defer b.usage.Calls.End()
	return b.lanes.Do(ctx, end, q)
}

// deliverAll sends requests concurrently, once, each within its limit: a server that hangs delays only its own requests.
func (b *Backend) deliverAll(ctx context.Context, list []exchange.Request) []exchange.Result {
	if b.lanes == nil {
		return b.carryAll(ctx, list)
	}
	if !b.usage.Calls.Begin() {
		return slices.Repeat([]exchange.Result{{Err: backend.ErrClosed}}, len(list))
	}
	defer b.usage.Calls.End()
	return b.lanes.DoAll(ctx, list)
}
