package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// A Backend keeps locks in Redis. It implements [backend.Backend] and [backend.BatchRenewer].
type Backend struct {
	usage      exchange.Usage
	client     redis.UniversalClient
	options    Options
	deputies   int // how many waiters may be told to look after a reservation, until one is known to hear
	naming     naming
	told       any // how scripts tell waiters, a string: inbox, deputies, prefix of channels
	guarantees backend.Guarantees
	leases     *backend.Leases
	inbox      *inbox
	watches    watches
	lanes      *exchange.Lanes // nil for a client of several servers, or of a foreign type
	crossSlot  atomic.Bool     // the server refused a script on keys of several slots: it belongs to a cluster
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
		// A cluster's server does not know who hears, so all of them are told.
		deputies: 2,
	}
	if c, ok := client.(*redis.Client); ok {
		b.deputies = 16
		b.lanes = exchange.NewLanes(c, &b.usage.Calls)
	}
	b.leases = backend.NewLeases(requests{b}, o.Timeout)
	b.inbox = newInbox(client, b.naming.channels())
	b.told = fmt.Sprintf("%s%02d%s", b.inbox.id, b.deputies, b.naming.channels())
	return b
}

// held is a lease's Data.
type held struct {
	lock    string        // the key's name
	renewal *renewal      // the last; nil before the first
	ttl     time.Duration // of the grant
	// An earlier request for this lease went unanswered and may still arrive after the release.
	echo bool
	over atomic.Bool // its release has begun
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
		a.end()
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
	b.leaveWatches()
	closeClients := sync.OnceValue(b.closeClients)
	// Releases are not called off as clean-ups are: those that hang end with their connections.
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
	b.usage.Calls.Drain(exchange.CloseGrace) // requests that the closing of their connections has ended
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
