package redis

import (
	"context"
	"errors"
	"sync"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

const paramMinReplicas = driver.ParamPrefix + "min_replicas"

func init() {
	driver.Register(driver.Driver{
		Name: "redis",
		URLs: endpoint.Forms,
		Params: []driver.Param{
			driver.TimeoutParam(exchange.DefaultTimeout),
			endpoint.NamespaceParam,
			{Name: paramMinReplicas, Type: driver.Number, Max: maxReplicas,
				Help: "replicas that must have received a grant or renewal before it counts (WAIT); default 0"},
		},
		OtherParams: endpoint.OtherParams,
		Examples: []string{
			"redis://user:password@localhost:6379/0",
			"rediss://user:password@host:6379/0",
			"redis+unix:///run/redis.sock?db=0",
			"redis+sentinel://user:password@s1:26379,s2:26379,s3:26379/mymaster/0",
			"redis+cluster://user:password@h1:6379,h2:6379,h3:6379",
		},
		Guarantees: guarantees(),
		Findings:   append(kit.Findings(rules), kit.Findings(endpoint.ServerRules)...),
		RoundTrips: driver.RoundTrips{Acquire: "1", Renew: "1", Release: "1"},
		Open:       func(ctx context.Context, u driver.URL) (backend.Backend, error) { return open(ctx, u) },
	})
}

func open(ctx context.Context, u driver.URL) (*Backend, error) {
	endpoint.LogTo(ctx)
	o, err := (&Options{
		Namespace:   u.Text(endpoint.NamespaceParam.Name),
		MinReplicas: int(u.Number(paramMinReplicas)),
		Timeout:     u.Duration(driver.ParamTimeout),
	}).validate()
	if err != nil {
		return nil, err
	}
	t, err := endpoint.TargetOf(u)
	if err != nil {
		return nil, err
	}
	client, err := endpoint.NewClient(t, o.Timeout)
	if err != nil {
		return nil, err
	}
	b := newBackend(client, o)
	b.closeOwned = sync.OnceValue(client.Close)
	if t.Single != nil {
		solo := exchange.NewSolo(t.Single)
		b.batcher.Solo = solo
		b.closeOwned = sync.OnceValue(func() error { return errors.Join(client.Close(), solo.Close()) })
	}
	if err := b.begin(ctx); err != nil {
		return nil, t.NameMaster(err)
	}
	return b, nil
}
