package redlock

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

const (
	paramNode   = driver.ParamPrefix + "node"
	paramMaxTTL = driver.ParamPrefix + "max_ttl"
)

func init() {
	driver.Register(driver.Driver{
		Name: "redlock",
		URLs: []driver.URLForm{endpoint.FleetForm},
		Params: []driver.Param{
			driver.TimeoutParam(exchange.DefaultTimeout),
			endpoint.NamespaceParam,
			{Name: paramNode, Many: true,
				Help: "escaped redis URL of one more node, for nodes that differ in more than their host; may be repeated"},
			{Name: driver.ParamPassword, Many: true,
				Help: "replaces the first *** that is a password in the lock_node URLs, the next one the second, and so on"},
			{Name: paramMaxTTL, Type: driver.Duration,
				Help: "longest TTL, and how long a node that may have lost leases has no vote; default " + defaultMaxTTL.String()},
		},
		OtherParams: endpoint.OtherParams,
		Examples: []string{
			"redis+redlock://user:password@h1:6379,h2:6379,h3:6379/0",
			"rediss+redlock://user:password@h1:6379,h2:6379,h3:6379/0?lock_max_ttl=5m",
			"redis+redlock:?lock_node=redis%3A%2F%2Fh1&lock_node=rediss%3A%2F%2Fh2&lock_node=redis%3A%2F%2Fh3",
		},
		Guarantees: guarantees(defaultMaxTTL),
		Findings:   slices.Concat(kit.Findings(fleetRules), kit.Findings(nodeRules), kit.Findings(endpoint.ServerRules)),
		RoundTrips: driver.RoundTrips{Acquire: "1-2", Renew: "1", Release: "1"},
		Open:       func(ctx context.Context, u driver.URL) (backend.Backend, error) { return open(ctx, u) },
	})
}

func open(ctx context.Context, u driver.URL) (*Backend, error) {
	endpoint.LogTo(ctx)
	o, err := (&Options{
		Namespace: u.Text(endpoint.NamespaceParam.Name),
		MaxTTL:    u.Duration(paramMaxTTL),
		Timeout:   u.Duration(driver.ParamTimeout),
	}).validate()
	if err != nil {
		return nil, err
	}
	list, err := nodeOptions(u)
	if err != nil {
		return nil, err
	}
	var clients []*redis.Client
	for _, n := range list {
		c, err := endpoint.NewClient(endpoint.Target{Single: n}, o.Timeout)
		if err != nil {
			for _, c := range clients {
				_ = c.Close()
			}
			return nil, err
		}
		clients = append(clients, c.(*redis.Client))
	}
	return newBackend(clients, o, true).begin(ctx)
}
