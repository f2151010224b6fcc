package zookeeper

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/tlsurl"
)

const (
	schemePlain = "zookeeper"
	schemeTLS   = "zookeepers"
	portTLS     = 2281 // as ZooKeeper's documentation has it for secureClientPort

	paramNamespace      = backend.ParamPrefix + "namespace"
	paramSessionTimeout = "session_timeout" // as clients of other languages call it
)

func init() {
	backend.Register(backend.Driver{
		Name:    "zookeeper",
		Schemes: []string{schemePlain, schemeTLS},
		Examples: []string{
			"zookeeper://z1:2181,z2:2181,z3:2181",
			"zookeeper://user:password@z1:2181,z2:2181,z3:2181/chroot?session_timeout=10s",
			"zookeepers://z1:2281,z2:2281,z3:2281?cacert=/etc/zookeeper/ca.pem&cert=/etc/zookeeper/client.pem&key=/etc/zookeeper/client-key.pem",
		},
		Params: map[string]string{
			paramNamespace: "the node that contains all locks; default anylock",
		},
		Guarantees: defaultLimits().guarantees(),
		Findings:   append(backend.Findings(rules), backend.Findings(serverRules)...),
		RoundTrips: backend.RoundTrips{Acquire: "2", Renew: "1", Release: "1"},
		Open: func(ctx context.Context, rawURL string) (backend.Backend, error) {
			b, err := open(ctx, rawURL)
			if err != nil {
				return nil, backend.CleanError(rawURL, err)
			}
			return b, nil
		},
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
	t, err := parseURL(rest)
	if err != nil {
		return nil, err
	}
	t.options.Namespace = params[paramNamespace]
	if t.secure {
		config, err := t.files.Config()
		if err != nil {
			return nil, err
		}
		t.options.Dial = dialTLS(config)
	}
	return New(ctx, t.servers, &t.options)
}

func dialTLS(config *tls.Config) zk.Dialer {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address, config)
	}
}

// A target is what a URL says.
type target struct {
	servers []string
	secure  bool         // by TLS
	files   tlsurl.Files // of TLS
	options Options
}

// parseURL reads a URL without our own parameters.
func parseURL(raw string) (target, error) {
	fail := func(format string, args ...any) (target, error) {
		return target{}, fmt.Errorf("%w: zookeeper url: %s", backend.ErrInvalid, fmt.Sprintf(format, args...))
	}
	u, err := backend.SplitURL(raw)
	if err != nil {
		return target{}, err
	}
	t := target{secure: u.Scheme == schemeTLS}
	port := zk.DefaultPort
	if t.secure {
		port = portTLS
	}
	if _, rest, _ := strings.Cut(raw, ":"); !strings.HasPrefix(rest, "//") {
		return fail("// is missing behind the scheme")
	}
	for _, h := range u.Hosts {
		server, err := backend.HostPort(h, strconv.Itoa(port))
		if err != nil {
			return fail("%v", err)
		}
		if slices.Contains(t.servers, server) {
			return fail("a host is given twice")
		}
		t.servers = append(t.servers, server)
	}
	if len(t.servers) == 0 {
		t.servers = []string{net.JoinHostPort("localhost", strconv.Itoa(port))}
	}
	t.options = Options{User: u.User, Password: u.Password}
	if u.HasUser && u.User == "" {
		return fail("@ without a user before it")
	}
	path, err := u.NamePath()
	if err != nil {
		return target{}, err
	}
	t.options.Chroot = strings.TrimSuffix(path, "/")
	query, err := url.ParseQuery(u.Query)
	if err != nil {
		return fail("bad %%XX escape in a parameter")
	}
	if t.files, err = tlsurl.Take(query, u.Scheme, schemeTLS); err != nil {
		return fail("%v", err)
	}
	for name, values := range query {
		if name != paramSessionTimeout {
			return fail("%s; known: %s, %s; for %s://: %s, %s, %s", backend.UnknownParam(u.Query, name),
				paramSessionTimeout, paramNamespace, schemeTLS, tlsurl.CA, tlsurl.Cert, tlsurl.Key)
		}
		d, err := time.ParseDuration(values[0])
		if err != nil || d <= 0 || len(values) > 1 {
			return fail("parameter %q is not one duration as in 10s", name)
		}
		t.options.SessionTimeout = d
	}
	return t, nil
}
