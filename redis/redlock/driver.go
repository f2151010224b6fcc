package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/calls"
	"github.com/anylock/lock/redis/internal/endpoint"
)

func init() {
	backend.Register(backend.Driver{
		Name:    "redlock",
		Schemes: []string{"redis+redlock", "rediss+redlock"},
		Examples: []string{
			"redis+redlock://user:password@h1:6379,h2:6379,h3:6379/0",
			"rediss+redlock://user:password@h1:6379,h2:6379,h3:6379/0?lock_max_ttl=5m",
			"redis+redlock:?lock_node=redis%3A%2F%2Fh1&lock_node=rediss%3A%2F%2Fh2&lock_node=redis%3A%2F%2Fh3",
		},
		Params: map[string]string{
			paramNode:               "escaped redis URL of one more node, for nodes that differ in more than their host; may be repeated",
			backend.ParamPassword:   "replaces the first *** that is a password in the lock_node URLs, the next one the second, and so on",
			paramMaxTTL:             "longest TTL, and how long a node has no vote that may have forgotten leases; default 1m",
			endpoint.ParamNamespace: "begins the name of every key; default anylock",
		},
		Guarantees: guarantees(defaultMaxTTL),
		Findings:   append(backend.Findings(fleetRules), backend.Findings(nodeRules)...),
		RoundTrips: backend.RoundTrips{Acquire: "1-2", Renew: "1", Release: "1"},
		Open:       func(ctx context.Context, rawURL string) (backend.Backend, error) { return open(ctx, rawURL) },
	})
}

func open(ctx context.Context, rawURL string) (*Backend, error) {
	endpoint.LogTo(backend.Logger(ctx))
	rest, nodes, err := takeNodes(rawURL)
	if err != nil {
		return nil, err
	}
	rest, params, err := backend.TakeParams(rest, paramMaxTTL, endpoint.ParamNamespace)
	if err != nil {
		return nil, err
	}
	o := &Options{Namespace: params[endpoint.ParamNamespace]}
	if text, ok := params[paramMaxTTL]; ok {
		o.MaxTTL, err = time.ParseDuration(text)
		if err != nil || o.MaxTTL <= 0 {
			return nil, fmt.Errorf("%w: url: parameter %q is not a positive duration, as in 1m", backend.ErrInvalid, paramMaxTTL)
		}
	}
	valid, err := o.validate()
	if err != nil {
		return nil, err
	}
	list, err := nodeOptions(rest, nodes)
	if err != nil {
		return nil, backend.CleanError(rawURL, err)
	}
	clients, timeout, err := newNodeClients(list)
	if err != nil {
		return nil, err
	}
	valid.Timeout = timeout
	r := newBackend(clients, valid)
	for _, n := range r.nodes {
		r.owned = append(r.owned, n.client)
	}
	if err := r.look(ctx); err != nil {
		calls.CloseUnopened(ctx, r)
		return nil, backend.CleanError(rawURL, err)
	}
	return r, nil
}

// newNodeClients makes the clients of nodes. Their timeouts end requests that nobody waits for any more; the longest is that of all.
func newNodeClients(list []*redis.Options) (clients []*redis.Client, timeout time.Duration, err error) {
	for _, o := range list {
		c, limit, err := endpoint.NewClient(endpoint.Target{Single: o})
		if err != nil {
			return nil, 0, err
		}
		timeout = max(timeout, limit)
		clients = append(clients, c.(*redis.Client))
	}
	return clients, timeout, nil
}
