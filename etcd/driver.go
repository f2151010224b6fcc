package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/calls"
)

func init() {
	backend.Register(backend.Driver{
		Name:    "etcd",
		Schemes: []string{"etcd", "etcds"},
		Examples: []string{
			"etcd://user:password@h1:2379,h2:2379,h3:2379/prefix",
			"etcds://h1:2379,h2:2379,h3:2379?cacert=/etc/etcd/ca.pem&cert=/etc/etcd/client.pem&key=/etc/etcd/client-key.pem",
		},
		Guarantees: guarantees(usualMinTTL),
		Findings:   append(backend.Findings(clusterRules), backend.Findings(serverRules)...),
		RoundTrips: backend.RoundTrips{Acquire: "1", Renew: "1", Release: "1"},
		Open:       func(ctx context.Context, rawURL string) (backend.Backend, error) { return open(ctx, rawURL) },
	})
}

func open(ctx context.Context, rawURL string) (*Backend, error) {
	t, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	b, err := openTarget(ctx, t)
	switch {
	case err == nil:
		return b, nil
	case backend.Ended(ctx):
		err = backend.ContextError(ctx, err)
	default:
		err = unavailable(err)
	}
	return nil, backend.CleanError(rawURL, err)
}

func openTarget(ctx context.Context, t target) (b *Backend, err error) {
	config, err := t.config()
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(config) // which makes no request
	if err != nil {
		return nil, err
	}
	owned := clients{client}
	defer func() {
		if err != nil {
			_ = owned.Close()
		}
	}()
	if err = reach(ctx, client, t.options.Timeout); err != nil {
		return nil, err
	}
	if t.user != "" {
		if client, err = t.loggedIn(config, client); err != nil {
			return nil, err
		}
		owned = append(owned, client)
	}
	if b, err = openClient(ctx, client, t.options); err != nil {
		return nil, err
	}
	b.owned = owned
	return b, nil
}

// clients are what a Backend has opened.
type clients []*clientv3.Client

func (c clients) Close() error {
	var errs []error
	for _, client := range c {
		if err := client.Close(); !errors.Is(err, context.Canceled) { // clientv3 tells of its own cancelling
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
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
	b, err := New(client, o)
	if err != nil {
		return nil, err
	}
	if err := b.lookAround(ctx); err != nil {
		calls.CloseUnopened(ctx, b)
		return nil, err
	}
	return b, nil
}

// lookAround finds out whether the servers let us in, the least TTL they grant, and their version.
func (b *Backend) lookAround(ctx context.Context) error {
	if _, err := b.read(ctx, clientv3.OpGet(b.naming.prefix("any"), clientv3.WithPrefix(), clientv3.WithCountOnly())); err != nil {
		return err
	}
	l, err := b.pool.ask(ctx, time.Second) // to see what is granted instead
	if err != nil {
		return err
	}
	b.pool.drop(l)
	b.guarantees = weakened(guarantees(max(l.ttl, granularity)), b.mostFlawed(ctx))
	return backend.ContextError(ctx, nil)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: url: "+format, append([]any{backend.ErrInvalid}, args...)...)
}
