package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/backend/tlsurl"
	"github.com/anylock/lock/internal/calls"
)

const (
	// If a connection with requests under way is silent for pingAfter, the client pings the server. If the reply takes
	// longer than pingTimeout, the client closes the connection. gRPC does not ping more often; by default, servers allow
	// one ping in 5 s.
	pingAfter   = 10 * time.Second
	pingTimeout = 3 * time.Second
	// dialTimeout limits one attempt to connect. mostBackoff is the longest pause between attempts: by default, clientv3
	// pauses for minutes if a server was down for long.
	dialTimeout = 3 * time.Second
	mostBackoff = 2 * time.Second
	// window is how much a server may send ahead, more than nearly every reply. Without a fixed window, gRPC would send a
	// ping with each reply to measure the connection.
	window = 1 << 20
)

// fromURL returns the options and the client's configuration for a URL. The configuration contains no user, because
// login authenticates the requests.
func fromURL(u driver.URL) (Options, clientv3.Config, error) {
	o, err := (&Options{Namespace: strings.Trim(u.Path, "/"), Timeout: u.Duration(driver.ParamTimeout)}).validate()
	if err == nil && u.HasUser && (u.User == "" || u.Password == "") { // clientv3 would not log in
		err = fmt.Errorf("%w: %s url: user without a password, or password without a user",
			backend.ErrInvalid, u.Scheme)
	}
	if err != nil {
		return o, clientv3.Config{}, err
	}
	reconnect := backoff.DefaultConfig
	reconnect.BaseDelay, reconnect.MaxDelay = 100*time.Millisecond, mostBackoff
	c := clientv3.Config{
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    pingAfter,
		DialKeepAliveTimeout: pingTimeout,
		Logger:               zap.NewNop(), // errors are returned
		DialOptions: []grpc.DialOption{
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: dialTimeout}),
			grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		},
	}
	native := "http://"
	if u.Secure {
		native = "https://"
	}
	for _, h := range u.Hosts {
		c.Endpoints = append(c.Endpoints, native+h)
	}
	c.TLS, err = tlsurl.Config(u)
	return o, c, err
}

// open creates a client for a URL and opens a Backend on it.
func open(ctx context.Context, u driver.URL) (*Backend, error) {
	o, config, err := fromURL(u)
	if err != nil {
		return nil, err
	}
	var l *login
	if u.User != "" {
		l = &login{user: u.User, password: u.Password, limit: o.Timeout}
		config.DialOptions = append(config.DialOptions, l.options()...)
	}
	client, err := clientv3.New(config) // makes no request
	if err != nil {
		return nil, err
	}
	b := newBackend(client, o)
	b.owned = true
	return b.connect(ctx, l)
}

// New returns a Backend on a client that the application owns: Close does not close the client. Like opening by URL,
// New reads the least TTL that the servers grant and their versions, within ctx: see the Guarantees. Nil opts are the
// defaults.
//
// The Backend uses the client's connection, endpoints, TLS and credentials, but not its KV, Watcher and Lease. Wrappers
// of these fields, such as those of package namespace, have no effect; set Options.Namespace instead.
//
// Configure several endpoints, DialKeepAliveTime and DialKeepAliveTimeout, so that the client abandons connections to a
// server that hangs.
func New(ctx context.Context, client *clientv3.Client, opts *Options) (*Backend, error) {
	b, err := onClient(client, opts)
	if err != nil {
		return nil, err
	}
	return b.connect(ctx, nil)
}

// onClient returns a Backend that has made no request.
func onClient(client *clientv3.Client, opts *Options) (*Backend, error) {
	o, err := opts.validate()
	if err != nil {
		return nil, err
	}
	if client == nil || client.ActiveConnection() == nil {
		return nil, fmt.Errorf("%w: nil client, or one without a connection", backend.ErrInvalid)
	}
	return newBackend(client, o), nil
}

// connect connects to the servers, logs in and reads their guarantees. l is nil if the URL has no user or the client is
// the application's. If a step fails, connect closes b, and returns a context error if ctx has ended, or ErrUnavailable
// if the servers could not be reached.
func (b *Backend) connect(ctx context.Context, l *login) (*Backend, error) {
	err := b.reach(ctx)
	switch {
	case err != nil:
	case l != nil:
		err = l.start(ctx, b.client.ActiveConnection(), b.leases)
	default:
		err = b.keepLoggedIn(ctx)
	}
	if err == nil {
		err = b.readGuarantees(ctx)
	}
	if err != nil {
		calls.CloseUnopened(ctx, b)
		if kit.Ended(ctx) {
			return nil, kit.ContextError(ctx, err)
		}
		return nil, unavailable(err)
	}
	return b, nil
}

// reach makes a request that fails as soon as every endpoint has failed. It ignores errors that a server returns, for
// example because the client is not logged in yet.
func (b *Backend) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	kv := pb.NewKVClient(b.client.ActiveConnection())
	_, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte("any"), Serializable: true})
	var refusal rpctypes.EtcdError
	if errors.As(rpctypes.Error(err), &refusal) {
		return nil
	}
	return err
}

// readGuarantees checks that the client may read the namespace. It reads the least TTL that the servers grant and their
// versions, and detects a proxy.
func (b *Backend) readGuarantees(ctx context.Context) error {
	count := clientv3.OpGet(b.options.prefix("any"), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if _, err := b.readAt(ctx, 0, count); err != nil {
		return err
	}
	l, err := b.pool.request(ctx, time.Second) // the servers raise a TTL below their minimum
	if err != nil {
		return err
	}
	b.pool.revokeLater(l)
	if err := b.detectProxy(ctx); err != nil {
		return err
	}
	if b.guarantees, err = b.readVersions(ctx, guarantees(max(l.ttl, granularity))); err != nil {
		return err
	}
	return kit.ContextError(ctx, nil)
}
