package redlock

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A Backend keeps locks on a fleet of independent Redis servers, of which any minority may fail. It implements
// [backend.Backend] and the optional interfaces [backend.BatchRenewer], [backend.Lister], [backend.Breaker],
// [backend.Resumer], [backend.Examiner] and [backend.Readiness].
//
// A key is granted when a quorum of the nodes, more than half, has granted it. docs/redlock.md proves that two owners
// cannot both have a quorum, and lists the assumptions and what breaks them.
//
// Exclusion is best effort, because nodes end leases by their wall clocks. If clock steps that nobody notices end a
// lease on so many nodes that another owner gets a quorum, two owners hold the key. Crashes, restarts, lost data, hung
// nodes and network partitions cannot cause this.
type Backend struct {
	nodes      []*node
	comparing  sync.Mutex // held while the handshake of a node is compared with those of the others
	options    Options
	naming     naming
	guarantees backend.Guarantees
	leases     *kit.Leases
	closeOwned func() error // closes the clients that this Backend opened, once
}

var (
	_ backend.Backend      = (*Backend)(nil)
	_ backend.BatchRenewer = (*Backend)(nil)
	_ backend.Lister       = (*Backend)(nil)
	_ backend.Breaker      = (*Backend)(nil)
	_ backend.Resumer      = (*Backend)(nil)
	_ backend.Examiner     = (*Backend)(nil)
	_ backend.Readiness    = (*Backend)(nil)
)

// newBackend returns a Backend that has made no request. If owned is true, Close closes the clients.
func newBackend(clients []*redis.Client, o Options, owned bool) *Backend {
	r := &Backend{options: o, naming: newNaming(o.Namespace), guarantees: guarantees(o.MaxTTL)}
	r.closeOwned = sync.OnceValue(func() (err error) {
		for _, n := range r.nodes {
			if owned {
				err = errors.Join(err, n.client.Close())
			}
		}
		return err
	})
	r.leases = kit.NewLeases(requests{r}, o.Timeout)
	context.AfterFunc(r.leases.Base(), func() { _ = r.closeOwned() }) // ends the requests still in progress
	for _, c := range clients {
		r.nodes = append(r.nodes, newNode(c, o.Timeout, r.leases.Go))
	}
	return r
}

// Guarantees implements [backend.Backend].
func (r *Backend) Guarantees() backend.Guarantees { return r.guarantees }

// NotReady returns an error if no key can be granted at the moment, because too few nodes have a vote. The error
// matches [backend.ErrUnavailable]; it names the nodes without a vote, until when, and why. NotReady sends no request:
// it uses what the nodes last replied, on opening and since. So it is cheap and may be called at any time.
func (r *Backend) NotReady() error {
	t := r.newTally()
	for i, n := range r.nodes {
		t.record(answer{node: i, err: n.notReady()})
	}
	return r.quorumError(t)
}

// Close implements [backend.Backend]. Clients given to New stay open.
func (r *Backend) Close() error {
	if !r.leases.Close() {
		return nil
	}
	err := r.closeOwned()
	r.leases.Drain() // closing the connections has ended the requests
	return err
}
