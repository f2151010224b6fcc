package etcd

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/calls"
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

func open(ctx context.Context, u driver.URL) (*Backend, error) {
	o, config, err := fromURL(u)
	if err != nil {
		return nil, err
	}
	b, err := openOwn(ctx, u, o, config)
	if err != nil {
		return nil, openError(ctx, err)
	}
	return b, nil
}

// openError is err as a caller sees it who opens a Backend.
func openError(ctx context.Context, err error) error {
	if kit.Ended(ctx) {
		return kit.ContextError(ctx, err)
	}
	return unavailable(err)
}

// openOwn makes a client and opens a Backend on it.
func openOwn(ctx context.Context, u driver.URL, o *Options, config clientv3.Config) (b *Backend, err error) {
	var l *login
	if u.User != "" {
		l = newLogin(u.User, u.Password, o.Timeout)
		config.DialOptions = append(config.DialOptions, l.options()...)
	}
	client, err := clientv3.New(config) // which makes no request
	if err != nil {
		return nil, err
	}
	owned := ownClient{client, l}
	defer func() {
		if err != nil {
			_ = owned.Close()
		}
	}()
	if err = reach(ctx, client, o.Timeout); err != nil {
		return nil, err
	}
	if l != nil {
		if err = l.start(ctx, client.ActiveConnection()); err != nil {
			return nil, err
		}
	}
	if b, err = openClient(ctx, client, o); err != nil {
		return nil, err
	}
	b.owned = owned
	return b, nil
}

// An ownClient is a client that a Backend has opened, with its login if the URL names a user.
type ownClient struct {
	client *clientv3.Client
	login  *login
}

func (c ownClient) Close() error {
	if c.login != nil {
		c.login.close()
	}
	if err := c.client.Close(); !errors.Is(err, context.Canceled) { // clientv3 reports its own cancellation
		return err
	}
	return nil
}

// reach makes a request that does not wait for a connection when each endpoint has failed: why is told at once. What the servers answer, such
// as that they want a user, is for others to judge.
func reach(ctx context.Context, client *clientv3.Client, limit time.Duration) error {
	rctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := pb.NewKVClient(client.ActiveConnection()).Range(rctx, &pb.RangeRequest{Key: []byte("any"), Serializable: true})
	var told rpctypes.EtcdError
	if errors.As(rpctypes.Error(err), &told) {
		return nil
	}
	return err
}

// openClient returns a Backend after a look at the servers.
func openClient(ctx context.Context, client *clientv3.Client, o *Options) (*Backend, error) {
	b, err := onClient(client, o)
	if err != nil {
		return nil, err
	}
	if err := b.lookAround(ctx); err != nil {
		calls.CloseUnopened(ctx, b)
		return nil, err
	}
	return b, nil
}

// lookAround finds out whether the servers let us in, the least TTL they grant, their version, and whether we reach them through a proxy.
func (b *Backend) lookAround(ctx context.Context) error {
	if _, err := b.read(ctx, clientv3.OpGet(b.naming.prefix("any"), clientv3.WithPrefix(), clientv3.WithCountOnly())); err != nil {
		return err
	}
	l, err := b.pool.ask(ctx, time.Second) // to see what is granted instead
	if err != nil {
		return err
	}
	b.pool.drop(l)
	if err := b.findProxy(ctx); err != nil {
		return err
	}
	b.guarantees = weakened(guarantees(max(l.ttl, granularity)), b.mostFlawed(ctx))
	return kit.ContextError(ctx, nil)
}
