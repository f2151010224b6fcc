package redlock

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/calls"
	"github.com/anylock/lock/redis/internal/endpoint"
)

const (
	// defaultMaxTTL is twice package lock's default TTL.
	defaultMaxTTL = time.Minute
	leastNodes    = 3
)

// Options tune a Backend. The zero Options, and nil, are the defaults. All clients of a fleet must use the same
// Namespace and MaxTTL.
type Options struct {
	// Namespace begins the name of every key; "anylock" if empty. Braces are not allowed.
	Namespace string

	// MaxTTL is the longest TTL that a caller may request, a minute if zero. A node that is new, or may have forgotten
	// leases in a restart, has no vote for that long. The nodes remember MaxTTL and reject clients with a different
	// MaxTTL.
	MaxTTL time.Duration

	// Timeout limits each request to a node, and each operation while no quorum of the nodes replies; 2 s if zero. Once a
	// quorum has replied, an Acquire, renewal or release waits for one more node only if it cannot succeed without that
	// node, and for at most TTL/4.
	Timeout time.Duration
}

func (o *Options) validate() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	if err := endpoint.Complete(&v.Namespace, &v.Timeout); err != nil {
		return v, err
	}
	v.MaxTTL = cmp.Or(v.MaxTTL, defaultMaxTTL)
	if v.MaxTTL < minTTL || v.MaxTTL > backend.MaxTTL {
		return v, fmt.Errorf("%w: longest ttl %v is not between %v and %v", backend.ErrInvalid, v.MaxTTL, minTTL,
			backend.MaxTTL)
	}
	v.MaxTTL = v.MaxTTL.Truncate(granularity)
	return v, nil
}

// New returns a Backend on clients that the application owns, one for each node: an odd number, at least three. Close
// does not close them. Like opening by URL, New contacts the nodes, within ctx, and fails if a node cannot be used (a
// replica, or a server that evicts keys) or no quorum replies. A node that did not reply, or is temporarily unable to
// serve, is checked when it is next contacted. Nil opts are the defaults.
//
// A client must be for one server, not a failover or cluster client. Operations keep to their time limits whatever the
// clients' options are. Still, clients should set ContextTimeoutEnabled and timeouts of about Timeout, which end
// requests that nobody waits for any more. A client does not retry requests for leases, whatever its MaxRetries is.
func New(ctx context.Context, nodes []*redis.Client, opts *Options) (*Backend, error) {
	r, err := onClients(nodes, opts)
	if err != nil {
		return nil, err
	}
	return r.begin(ctx)
}

// begin validates and contacts the nodes. If it fails, it closes the Backend.
func (r *Backend) begin(ctx context.Context) (*Backend, error) {
	// When this time is over, Close must not wait for clients that ignore deadlines.
	limited, cancel := context.WithTimeout(ctx, endpoint.OpenTimeout)
	defer cancel()
	err := r.validateNodes()
	if err == nil {
		err = r.handshakeAll(ctx)
	}
	if err != nil {
		calls.CloseUnopened(limited, r)
		return nil, err
	}
	return r, nil
}

// onClients returns a Backend that has made no request.
func onClients(nodes []*redis.Client, opts *Options) (*Backend, error) {
	o, err := opts.validate()
	if err != nil {
		return nil, err
	}
	for _, c := range nodes {
		switch {
		case c == nil:
			return nil, fmt.Errorf("%w: nil client", backend.ErrInvalid)
		case c.Options().Addr == "FailoverClient":
			return nil, fmt.Errorf("%w: a failover client moves between servers", backend.ErrUnsupported)
		}
	}
	return newBackend(nodes, o, false), nil
}

// validateNodes rejects an even number of nodes, too few nodes, and duplicates.
func (r *Backend) validateNodes() error {
	if n := len(r.nodes); n < leastNodes || n%2 == 0 {
		return fmt.Errorf("%w: %d nodes: redlock needs an odd number, at least %d", backend.ErrInvalid, n, leastNodes)
	}
	seen := make(map[string]bool)
	for _, n := range r.nodes {
		if seen[n.name] {
			return fmt.Errorf("%w: node %s is given twice", backend.ErrInvalid, n.name)
		}
		seen[n.name] = true
	}
	return nil
}
