package redis

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
)

// A Redlock keeps locks on a fleet of independent Redis servers, of which any minority may fail. It implements
// [backend.Backend] and [backend.BatchRenewer].
//
// A key is granted when a quorum of the nodes, more than half, has granted it. docs/redlock.md says why two owners cannot
// both have a quorum, under which assumptions, and what breaks them.
//
// Exclusion is best effort, because nodes end leases by their wall clocks: steps of them that go unseen, on so many nodes
// that a quorum forgets a lease, let a second owner in. Crashes, restarts, lost data, hung nodes and cut networks do not.
type Redlock struct {
	usage
	nodes      []*node
	options    RedlockOptions
	naming     redlockNaming
	guarantees backend.Guarantees
	ban        time.Duration // for which a node has no vote that has forgotten leases
	leases     *backend.Leases
	waits      context.Context
	endWaits   context.CancelFunc
	owned      []io.Closer // clients that this Redlock opened
}

var (
	_ backend.Backend      = (*Redlock)(nil)
	_ backend.BatchRenewer = (*Redlock)(nil)
)

func newRedlock(clients []*redis.Client, o RedlockOptions) *Redlock {
	r := &Redlock{
		options: o, naming: newRedlockNaming(o.Namespace), guarantees: redlockGuarantees(o.MaxTTL),
		ban:   o.MaxTTL + backend.Margin(o.MaxTTL) + keepPad,
		usage: usage{closing: make(chan struct{})},
	}
	for _, c := range clients {
		r.nodes = append(r.nodes, newNode(c, o.Timeout, &r.calls))
	}
	r.leases = backend.NewLeases(redlockRequests{r}, o.Timeout)
	r.waits, r.endWaits = context.WithCancel(context.Background())
	return r
}

// Guarantees implements [backend.Backend].
func (r *Redlock) Guarantees() backend.Guarantees { return r.guarantees }

// NotReady says why no key can be granted at the moment: too few nodes have a vote. The error matches [backend.ErrUnavailable] and names
// them, until when each has none and why. It is nil while a quorum may vote. It asks no server: it goes by what nodes have
// said last, on opening and since, so that it costs nothing and may be called at any time.
func (r *Redlock) NotReady() error {
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
func (r *Redlock) round(ttl time.Duration) (time.Duration, error) {
	if ttl > r.options.MaxTTL {
		return 0, fmt.Errorf("%w: ttl %v is longer than %s, %v", backend.ErrInvalid, ttl, paramMaxTTL, r.options.MaxTTL)
	}
	return r.guarantees.Round(ttl), nil
}

// Close implements [backend.Backend]. Clients given to NewRedlock stay open.
func (r *Redlock) Close() error {
	if !r.calls.Close(r.closing) {
		return nil
	}
	r.endWaits()
	r.leases.Close()
	r.calls.Drain(closeGrace)
	r.calls.Seal()
	var err error
	for _, c := range r.owned {
		if cerr := c.Close(); err == nil {
			err = cerr
		}
	}
	r.calls.Drain(closeGrace) // requests that the closing of their connections has ended
	return err
}
