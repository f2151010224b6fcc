package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/calls"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

const paramMinReplicas = backend.ParamPrefix + "min_replicas"

func init() {
	backend.Register(backend.Driver{
		Name: "redis",
		Schemes: []string{
			"redis", "rediss", "redis+unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster",
		},
		Examples: []string{
			"redis://user:password@localhost:6379/0",
			"rediss://user:password@host:6379/0",
			"redis+unix:///run/redis.sock?db=0",
			"redis+sentinel://user:password@s1:26379,s2:26379,s3:26379/mymaster/0",
			"redis+cluster://user:password@h1:6379,h2:6379,h3:6379",
		},
		Params: map[string]string{
			paramMinReplicas:        "replicas that must have received a grant or renewal before it counts (WAIT); default 0",
			endpoint.ParamNamespace: "begins the name of every key and channel; default anylock",
		},
		Guarantees: guarantees(),
		Findings:   backend.Findings(rules),
		RoundTrips: backend.RoundTrips{Acquire: "1", Renew: "1", Release: "1"},
		Open:       func(ctx context.Context, rawURL string) (backend.Backend, error) { return open(ctx, rawURL) },
	})
}

func open(ctx context.Context, rawURL string) (*Backend, error) {
	rest, params, err := backend.TakeParams(rawURL, paramMinReplicas, endpoint.ParamNamespace)
	if err != nil {
		return nil, err
	}
	endpoint.LogTo(backend.Logger(ctx))
	t, err := endpoint.ParseURL(rest)
	if err != nil {
		return nil, err
	}
	o := &Options{Namespace: params[endpoint.ParamNamespace]}
	if n, ok := params[paramMinReplicas]; ok {
		if o.MinReplicas, err = strconv.Atoi(n); err != nil {
			return nil, fmt.Errorf("%w: url: parameter %q is not a number", backend.ErrInvalid, paramMinReplicas)
		}
	}
	if _, err := o.validate(); err != nil {
		return nil, err
	}
	client, timeout, err := endpoint.NewClient(t)
	if err != nil {
		return nil, err
	}
	o.Timeout = timeout
	b, err := onClient(client, o)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	b.owned = client
	if t.Single != nil {
		b.lanes.Solo = exchange.NewSolo(t.Single)
	}
	if err := b.inspectServers(ctx); err != nil {
		calls.CloseUnopened(ctx, b)
		return nil, backend.CleanError(rawURL, t.NameMaster(err))
	}
	return b, nil
}
