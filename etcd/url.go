package etcd

import (
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/tlsurl"
)

const (
	// A connection that carries requests and is silent for pingAfter is tried, and given up pingTimeout later. gRPC does
	// not ping more often, and servers refuse it.
	pingAfter   = 10 * time.Second
	pingTimeout = 3 * time.Second
	// dialTimeout bounds one attempt to connect, and mostBackoff the pause until the next one: clientv3 would leave a
	// server alone for minutes that was away for long.
	dialTimeout = 3 * time.Second
	mostBackoff = 2 * time.Second
	// window is how much a server may send ahead, more than any answer to us. It stays as it is: to find out what a link can
	// carry, gRPC would send a ping with each answer.
	window = 1 << 20
)

// fromURL returns the options and the client's configuration for a URL. The configuration has no user: see login.
func fromURL(u driver.URL) (*Options, clientv3.Config, error) {
	o, err := (&Options{Namespace: strings.Trim(u.Path, "/"), Timeout: u.Duration(driver.ParamTimeout)}).validate()
	if err == nil && u.HasUser && (u.User == "" || u.Password == "") { // the client would not log in at all
		err = fmt.Errorf("%w: %s url: user without a password, or password without a user", backend.ErrInvalid, u.Scheme)
	}
	if err != nil {
		return nil, clientv3.Config{}, err
	}
	slow := backoff.DefaultConfig
	slow.BaseDelay, slow.MaxDelay = 100*time.Millisecond, mostBackoff
	c := clientv3.Config{
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    pingAfter,
		DialKeepAliveTimeout: pingTimeout,
		Logger:               zap.NewNop(), // errors are returned
		DialOptions: []grpc.DialOption{
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: slow, MinConnectTimeout: dialTimeout}),
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
	return &o, c, err
}
