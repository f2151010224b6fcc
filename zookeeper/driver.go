package zookeeper

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

const (
	paramNamespace      = backend.ParamPrefix + "namespace"
	paramSessionTimeout = "session_timeout" // as clients of other languages call it
)

func init() {
	backend.Register(backend.Driver{
		Name:    "zookeeper",
		Schemes: []string{"zookeeper"},
		Examples: []string{
			"zookeeper://z1:2181,z2:2181,z3:2181",
			"zookeeper://user:password@z1:2181,z2:2181,z3:2181/chroot?session_timeout=10s",
		},
		Params: map[string]string{
			paramNamespace: "the node that has all locks; default anylock",
		},
		Guarantees: defaultLimits().guarantees(),
		RoundTrips: backend.RoundTrips{Acquire: "2", Renew: "1", Release: "1"},
		Open:       func(ctx context.Context, rawURL string) (backend.Backend, error) { return open(ctx, rawURL) },
	})
}

// defaultLimits are those of servers as they come.
func defaultLimits() limits {
	return limitsOf(ticksLeast*defaultTick, ticksMost*defaultTick, 0)
}

func open(ctx context.Context, rawURL string) (*Backend, error) {
	rest, params, err := backend.TakeParams(rawURL, paramNamespace)
	if err != nil {
		return nil, err
	}
	servers, o, err := parseURL(rest)
	if err != nil {
		return nil, backend.CleanError(rawURL, err)
	}
	o.Namespace = params[paramNamespace]
	b, err := New(ctx, servers, o)
	if err != nil {
		return nil, backend.CleanError(rawURL, err)
	}
	return b, nil
}

// parseURL reads a URL without our own parameters.
func parseURL(raw string) (servers []string, o *Options, err error) {
	fail := func(format string, args ...any) ([]string, *Options, error) {
		return nil, nil, fmt.Errorf("%w: zookeeper url: %s", backend.ErrInvalid, fmt.Sprintf(format, args...))
	}
	u, err := backend.SplitURL(raw)
	if err != nil {
		return nil, nil, err
	}
	if _, rest, _ := strings.Cut(raw, ":"); !strings.HasPrefix(rest, "//") {
		return fail("// is missing behind the scheme")
	}
	seen := make(map[string]bool)
	for _, h := range u.Hosts {
		server, err := withPort(h)
		if err != nil {
			return fail("%v", err)
		}
		if seen[server] {
			return fail("host %s is there twice", server)
		}
		seen[server] = true
		servers = append(servers, server)
	}
	if len(servers) == 0 {
		servers = []string{net.JoinHostPort("localhost", strconv.Itoa(zk.DefaultPort))}
	}
	o = &Options{User: u.User, Password: u.Password}
	if u.HasUser && u.User == "" {
		return fail("@ without a user before it")
	}
	if o.Chroot, err = url.PathUnescape(strings.TrimSuffix(u.Path, "/")); err != nil {
		return fail("bad %%XX escape in the chroot")
	}
	query, err := url.ParseQuery(u.Query)
	if err != nil {
		return fail("bad %%XX escape in a parameter")
	}
	for name, values := range query {
		if name != paramSessionTimeout {
			return fail("unknown parameter %q; known: %s, %s", name, paramSessionTimeout, paramNamespace)
		}
		d, err := time.ParseDuration(values[0])
		if err != nil || d <= 0 || len(values) > 1 {
			return fail("parameter %q is not one duration as in 10s", name)
		}
		o.SessionTimeout = d
	}
	return servers, o, nil
}

// withPort gives a host the default port.
func withPort(host string) (string, error) {
	port := strconv.Itoa(zk.DefaultPort)
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if ip := net.ParseIP(bare); ip != nil {
		return net.JoinHostPort(bare, port), nil
	}
	if !strings.Contains(host, ":") {
		return net.JoinHostPort(host, port), nil
	}
	h, p, err := net.SplitHostPort(host)
	if err != nil || h == "" || p == "" {
		return "", fmt.Errorf("host %q is not host or host:port", host)
	}
	return net.JoinHostPort(h, p), nil
}
