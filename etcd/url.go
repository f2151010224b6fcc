package etcd

import (
	"net/url"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/tlsurl"
)

const (
	clientPort = "2379"
	schemeTLS  = "etcds"
)

// A target is what a URL says.
type target struct {
	endpoints      []string
	user, password string
	secure         bool         // by TLS
	files          tlsurl.Files // of TLS
	options        *Options
}

// parseURL checks everything that can be checked without a file or a request.
func parseURL(raw string) (target, error) {
	raw, _, err := backend.TakeParams(raw)
	if err != nil {
		return target{}, err
	}
	u, err := backend.SplitURL(raw)
	if err != nil {
		return target{}, err
	}
	t := target{user: u.User, password: u.Password}
	if _, rest, _ := strings.Cut(raw, ":"); !strings.HasPrefix(rest, "//") {
		return t, invalid("// is missing behind the scheme")
	}
	if u.HasUser && (u.User == "" || u.Password == "") { // the client would not log in at all
		return t, invalid("user without a password, or password without a user")
	}
	query, err := url.ParseQuery(u.Query)
	if err != nil {
		return t, invalid("bad %%XX escape in a parameter")
	}
	if err := t.addTLS(u.Scheme, u.Query, query); err != nil {
		return t, err
	}
	if err := t.addEndpoints(u); err != nil {
		return t, err
	}
	path, err := u.NamePath()
	if err != nil {
		return t, err
	}
	o, err := (&Options{Namespace: strings.Trim(path, "/")}).validate()
	t.options = &o
	return t, err
}

func (t *target) addTLS(scheme, raw string, query url.Values) error {
	t.secure = scheme == schemeTLS
	var err error
	if t.files, err = tlsurl.Take(query, scheme, schemeTLS); err != nil {
		return invalid("%v", err)
	}
	for name := range query {
		return invalid("%s; known: %s, %s, %s", backend.UnknownParam(raw, name), tlsurl.CA, tlsurl.Cert, tlsurl.Key)
	}
	return nil
}

func (t *target) addEndpoints(u backend.URL) error {
	hosts := u.Hosts
	if len(hosts) == 0 {
		hosts = []string{"localhost"}
	}
	native := "http://"
	if t.secure {
		native = "https://"
	}
	for _, h := range hosts {
		full, err := backend.HostPort(h, clientPort)
		if err != nil {
			return invalid("%v", err)
		}
		if slices.Contains(t.endpoints, native+full) {
			return invalid("a host is given twice")
		}
		t.endpoints = append(t.endpoints, native+full)
	}
	return nil
}

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

// config is the client's, without the user: see login.
func (t target) config() (clientv3.Config, error) {
	slow := backoff.DefaultConfig
	slow.BaseDelay, slow.MaxDelay = 100*time.Millisecond, mostBackoff
	c := clientv3.Config{
		Endpoints:            t.endpoints,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    pingAfter,
		DialKeepAliveTimeout: pingTimeout,
		Logger:               zap.NewNop(), // errors are returned
		DialOptions: []grpc.DialOption{
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: slow, MinConnectTimeout: dialTimeout}),
			grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window),
		},
	}
	if t.secure {
		config, err := t.files.Config()
		if err != nil {
			return c, err
		}
		c.TLS = config
	}
	return c, nil
}
