package redlock

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

// A Backend keeps locks on a fleet of independent Redis servers, of which any minority may fail. It implements
// [backend.Backend] and [backend.BatchRenewer].
//
// A key is granted when a quorum of the nodes, more than half, has granted it. docs/redlock.md says why two owners cannot
// both have a quorum, under which assumptions, and what breaks them.
//
// Exclusion is best effort, because nodes end leases by their wall clocks: steps of them that go unseen, on so many nodes
// that a quorum forgets a lease, let a second owner in. Crashes, restarts, lost data, hung nodes and cut networks do not.
type Backend struct {
	usage      exchange.Usage
	nodes      []*node
	meeting    sync.Mutex // held while a node that has just been met is compared with the others
	options    Options
	naming     naming
	guarantees backend.Guarantees
	ban        time.Duration // for which a node has no vote that has forgotten leases
	leases     *kit.Leases
	waits      context.Context
	endWaits   context.CancelFunc
	owned      []io.Closer // clients that this Backend opened
}

var (
	_ backend.Backend      = (*Backend)(nil)
	_ backend.BatchRenewer = (*Backend)(nil)
)

func newBackend(clients []*redis.Client, o Options) *Backend {
	r := &Backend{
		options: o, naming: newNaming(o.Namespace), guarantees: guarantees(o.MaxTTL),
		ban:   o.MaxTTL + backend.Margin(o.MaxTTL) + keepPad,
		usage: exchange.Usage{Closing: make(chan struct{})},
	}
	for _, c := range clients {
		r.nodes = append(r.nodes, newNode(c, o.Timeout, &r.usage.Calls))
	}
	r.leases = kit.NewLeases(requests{r}, o.Timeout)
	r.waits, r.endWaits = context.WithCancel(context.Background())
	return r
}

// Guarantees implements [backend.Backend].
func (r *Backend) Guarantees() backend.Guarantees { return r.guarantees }

// NotReady says why no key can be granted at the moment: too few nodes have a vote. The error matches [backend.ErrUnavailable] and names
// them, until when each has none and why. It is nil while a quorum may vote. It asks no server: it goes by what nodes have
// said last, on opening and since, so that it costs nothing and may be called at any time.
func (r *Backend) NotReady() error {
	errs := make([]error, len(r.nodes))
	able := 0
	for i, n := range r.nodes {
		if errs[i] = n.notReady(); errs[i] == nil {
			able++
		}
	}
	if able > len(r.nodes)/2 {
		return nil
	}
	return r.noQuorum(errs)
}

// round returns the TTL to grant, ErrInvalid for one that is longer than the fleet allows.
func (r *Backend) round(ttl time.Duration) (time.Duration, error) {
	if ttl > r.options.MaxTTL {
		return 0, fmt.Errorf("%w: ttl %v is longer than %s, %v", backend.ErrInvalid, ttl, paramMaxTTL, r.options.MaxTTL)
	}
	return r.guarantees.Round(ttl), nil
}

// Close implements [backend.Backend]. Clients given to New stay open.
func (r *Backend) Close() error {
	if !r.usage.Calls.Close(r.usage.Closing) {
		return nil
	}
	r.endWaits()
	r.leases.Close()
	r.usage.Calls.Drain(exchange.CloseGrace)
	r.usage.Calls.Seal()
	var err error
	for _, c := range r.owned {
		if cerr := c.Close(); err == nil {
			err = cerr
		}
	}
	r.usage.Calls.Drain(exchange.CloseGrace) // requests that the closing of their connections has ended
	return err
}
