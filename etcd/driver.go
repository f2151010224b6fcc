package etcd

import (
	"context"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
)

func init() {
	driver.Register(driver.Driver{
		Name: "etcd",
		URLs: []driver.URLForm{{
			Scheme: "etcd", Secure: "etcds", Port: "2379", Hosts: driver.ManyHosts, DefaultHost: "localhost",
			User: true, Path: driver.OptionalPath,
		}},
		Params: []driver.Param{driver.TimeoutParam(defaultTimeout)},
		Examples: []string{
			"etcd://user:password@h1:2379,h2:2379,h3:2379/prefix",
			"etcds://h1:2379,h2:2379,h3:2379?cacert=/etc/etcd/ca.pem&cert=/etc/etcd/client.pem&key=/etc/etcd/client-key.pem",
		},
		Guarantees: guarantees(usualMinTTL),
		Findings:   append(kit.Findings(clusterRules), kit.Findings(serverRules)...),
		RoundTrips: driver.RoundTrips{Acquire: "1", Renew: "1", Release: "1"},
		Open:       func(ctx context.Context, u driver.URL) (backend.Backend, error) { return open(ctx, u) },
	})
}
