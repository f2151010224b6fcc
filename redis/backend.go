package redis

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

// A Backend keeps locks in Redis. It implements [backend.Backend] and [backend.BatchRenewer].
type Backend struct {
	usage      exchange.Usage
	client     redis.UniversalClient
	options    Options
	naming     naming
	channel    any // of the inbox: a string, as an argument of scripts
	guarantees backend.Guarantees
	leases     *kit.Leases
	inbox      *inbox
	lanes      *exchange.Lanes // nil for a client of several servers, or of a type that is not go-redis'
	crossSlot  atomic.Bool     // the server belongs to a cluster: it has refused a script on keys of several slots
	owned      io.Closer       // the client, if this Backend opened it
}

var (
	_ backend.Backend      = (*Backend)(nil)
	_ backend.BatchRenewer = (*Backend)(nil)
)

func newBackend(client redis.UniversalClient, o Options) *Backend {
	b := &Backend{
		client: client, options: o,
		naming:     naming{o.Namespace},
		guarantees: guarantees(),
		usage:      exchange.Usage{Closing: make(chan struct{})},
	}
	if c, ok := client.(*redis.Client); ok {
		b.lanes = exchange.NewLanes(c, &b.usage.Calls)
	}
	b.leases = kit.NewLeases(requests{b}, o.Timeout)
	b.inbox = newInbox(client, b.naming.channels())
	b.channel = b.inbox.channel
	return b
}

// Acquire implements [backend.Backend].
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := b.usage.Begin(ctx, r.Validate()); err != nil {
		return nil, err
	}
	defer b.usage.Calls.End()
	a := &attempt{b: b, r: r, names: b.naming.names(r.Key), ttl: b.guarantees.Round(r.TTL)}
	l, err := a.run(ctx)
	if err != nil {
		a.cleanUp()
		return nil, err
	}
	return l, nil
}

// Inspect implements [backend.Backend]. A key that is reserved for a waiter is reported as held by it, with token 0.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := b.usage.Begin(ctx, backend.ValidateKey(key)); err != nil {
		return backend.Holder{}, err
	}
	defer b.usage.Calls.End()
	n := b.naming.names(key)
	v, _, err := b.eval(ctx, exchange.Request{Script: inspectScript, Keys: []string{n.lock, n.queue}})
	if err != nil {
		return backend.Holder{}, err
	}
	return parseInspect(v)
}

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees { return b.guarantees }

// Close implements [backend.Backend]. A client given to New stays open.
func (b *Backend) Close() error {
	if !b.usage.Calls.Close(b.usage.Closing) {
		return nil
	}
	closeClients := sync.OnceValue(b.closeClients)
	// Close cancels clean-ups, but not releases: a release that hangs ends with its connection.
	cutOff := time.AfterFunc(exchange.CloseGrace+exchange.CloseGrace/4, func() { _ = closeClients() })
	b.leases.Close()
	cutOff.Stop()
	b.usage.Calls.Drain(exchange.CloseGrace)
	b.usage.Calls.Seal()
	b.inbox.close()
	if b.owned == nil {
		return nil
	}
	err := closeClients()
	b.usage.Calls.Drain(exchange.CloseGrace) // closed connections end their requests
	return err
}

// closeClients closes the clients that this Backend opened.
func (b *Backend) closeClients() error {
	if b.owned == nil {
		return nil
	}
	err := b.owned.Close()
	if b.lanes != nil && b.lanes.Solo != nil {
		err = errors.Join(err, b.lanes.Solo.Client.Close())
	}
	return err
}
