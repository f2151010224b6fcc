package memcached

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/tlsurl"
)

const (
	schemePlain    = "memcached"
	schemeTLS      = "memcacheds"
	defaultPort    = "11211"
	paramTimeout   = "timeout"
	paramConns     = "max_idle_conns"
	paramNamespace = backend.ParamPrefix + "namespace"
)

// A target is what a URL names.
type target struct {
	addr    string       // host:port
	secure  bool         // by TLS
	files   tlsurl.Files // of TLS
	options Options
}

// parseURL reads a whole URL.
func parseURL(raw string) (target, error) {
	rest, params, err := backend.TakeParams(raw, paramNamespace)
	if err != nil {
		return target{}, err
	}
	u, err := backend.SplitURL(rest)
	if err != nil {
		return target{}, err
	}
	t := target{secure: u.Scheme == schemeTLS, options: Options{Namespace: params[paramNamespace]}}
	if t.addr, err = address(u); err == nil {
		err = t.setParams(u.Scheme, u.Query)
	}
	if err != nil {
		return target{}, fmt.Errorf("%w: memcached url: %w", backend.ErrInvalid, err)
	}
	if given, ok := params[paramNamespace]; ok && given == "" {
		return target{}, fmt.Errorf("%w: memcached url: parameter %q is empty", backend.ErrInvalid, paramNamespace)
	}
	t.options, err = t.options.validate()
	return t, err
}

func address(u backend.URL) (string, error) {
	switch {
	case len(u.Hosts) == 0:
		return "", fmt.Errorf("no host, as in memcached://localhost:11211")
	case len(u.Hosts) > 1: // a key would belong to another server when the list changes
		return "", fmt.Errorf("%d hosts: locks are kept on one server", len(u.Hosts))
	case u.HasUser:
		return "", fmt.Errorf("user or password: the client library cannot authenticate")
	case strings.Trim(u.Path, "/") != "":
		return "", fmt.Errorf("a path has no meaning")
	}
	host := u.Hosts[0]
	if !strings.Contains(host, ":") || strings.HasSuffix(host, "]") { // an IPv6 address is in brackets
		host += ":"
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return "", fmt.Errorf("bad host (an IPv6 address is written in brackets)")
	}
	if port == "" {
		port = defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); name == "" || err != nil || n == 0 {
		return "", fmt.Errorf("bad host or port")
	}
	return net.JoinHostPort(name, port), nil
}

// setParams takes the parameters that are named after fields of the client library.
func (t *target) setParams(scheme, query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("bad query")
	}
	if t.files, err = tlsurl.Take(values, scheme, schemeTLS); err != nil {
		return err
	}
	for name, list := range values {
		if len(list) > 1 {
			return fmt.Errorf("parameter %q is given twice", name)
		}
		switch value := list[0]; name {
		case paramTimeout:
			if t.options.Timeout, err = time.ParseDuration(value); err != nil || t.options.Timeout <= 0 {
				return fmt.Errorf("parameter %q is not a positive duration, as in 500ms", name)
			}
		case paramConns:
			if t.options.MaxConns, err = strconv.Atoi(value); err != nil || t.options.MaxConns < 1 || t.options.MaxConns > maxConns {
				return fmt.Errorf("parameter %q is not a number from 1 to %d", name, maxConns)
			}
		default:
			return fmt.Errorf("%s; known: %s, %s, %s; for %s://: %s, %s, %s", backend.UnknownParam(query, name),
				paramTimeout, paramConns, paramNamespace, schemeTLS, tlsurl.CA, tlsurl.Cert, tlsurl.Key)
		}
	}
	return nil
}
