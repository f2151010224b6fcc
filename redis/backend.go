package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

// A Backend keeps locks in Redis. It implements [backend.Backend] and the optional interfaces [backend.BatchRenewer],
// [backend.Lister], [backend.Breaker], [backend.Resumer] and [backend.Examiner].
type Backend struct {
	client     redis.UniversalClient
	options    Options
	naming     naming
	channel    any // the inbox's channel: a string, as an argument of scripts
	guarantees backend.Guarantees
	leases     *kit.Leases
	inbox      *inbox
	batcher    *exchange.Batcher // nil unless client is a *redis.Client
	attempts   int               // of a request; 0 for no limit
	closeOwned func() error      // closes the clients that this Backend opened, once
}

var (
	_ backend.Backend      = (*Backend)(nil)
	_ backend.BatchRenewer = (*Backend)(nil)
	_ backend.Lister       = (*Backend)(nil)
	_ backend.Breaker      = (*Backend)(nil)
	_ backend.Resumer      = (*Backend)(nil)
	_ backend.Examiner     = (*Backend)(nil)
)

func newBackend(client redis.UniversalClient, o Options) *Backend {
	b := &Backend{
		client: client, options: o,
		naming:     naming{o.Namespace},
		guarantees: guarantees(),
		closeOwned: func() error { return nil },
	}
	b.leases = kit.NewLeases(requests{b}, o.Timeout)
	// Requests of Acquire and Release do not use the contexts of Leases, because each would need a timer. They end when
	// their connections are closed.
	context.AfterFunc(b.leases.Base(), func() { _ = b.closeOwned() })
	if c, ok := client.(*redis.Client); ok {
		b.batcher = exchange.NewBatcher(c, b.leases.Go)
		b.attempts = 4 // no limit in a cluster, whose servers refuse scripts while a slot moves
	}
	b.inbox = newInbox(client, b.leases, b.naming.channels())
	b.channel = b.inbox.channel
	return b
}

// Acquire implements [backend.Backend].
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	a := &attempt{b: b, r: r, ttl: b.guarantees.Round(r.TTL), lease: &leaseData{names: b.naming.names(r.Key)}}
	defer a.unregister()
	return b.leases.Acquire(ctx, r, kit.Waiter{
		Try:   func(context.Context) (backend.Lease, error) { return a.try(ctx) }, // see newBackend
		Sleep: a.sleep, Passing: passing, CleanUp: a.cleanUp,
		Pause: kit.Pause{Min: 20 * time.Millisecond, Max: time.Second},
	})
}

// Inspect implements [backend.Backend]. A key that is reserved for a waiter is reported as held by that waiter, with
// token 0.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	return kit.Call(ctx, b.leases, backend.ValidateKey(key), func(ctx context.Context) (backend.Holder, error) {
		return b.inspect(ctx, key, "")
	})
}

// inspect returns the holder of key. If owner has one of several shared leases, owner is the holder.
func (b *Backend) inspect(ctx context.Context, key, owner string) (backend.Holder, error) {
	n := b.naming.names(key)
	v, _, err := b.eval(ctx, inspectScript.Request([]string{n.lock, n.queue}, owner))
	if err != nil {
		return backend.Holder{}, err
	}
	return parseInspect(v)
}

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees { return b.guarantees }

// Close implements [backend.Backend]. A client given to New stays open.
func (b *Backend) Close() error {
	if !b.leases.Close() {
		return nil
	}
	err := b.closeOwned()
	b.leases.Drain() // closed connections end their requests
	return err
}
