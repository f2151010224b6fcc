package link

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/conformance"
)

// Linked makes a [conformance.LinkedFunc] from a function that opens a client for the servers' addresses, each
// host:port. open gets the link's addresses instead of addrs.
func Linked(
	addrs []string, open func(ctx context.Context, addrs []string) (backend.Backend, error),
) conformance.LinkedFunc {
	return func(ctx context.Context) (backend.Backend, conformance.Link, error) {
		l, err := New(addrs...)
		if err != nil {
			return nil, nil, err
		}
		b, err := open(ctx, l.Addrs())
		if err != nil {
			l.Close()
			return nil, nil, err
		}
		return b, opening{l, open}, nil
	}
}

// An opening is a Link with the function that opens clients through it.
type opening struct {
	*Link
	open func(ctx context.Context, addrs []string) (backend.Backend, error)
}

var _ conformance.OpeningLink = opening{}

// Open implements conformance.OpeningLink.
func (l opening) Open(ctx context.Context) (backend.Backend, error) { return l.open(ctx, l.Addrs()) }

// URL makes a [conformance.LinkedFunc] for the store at rawURL. It replaces the hosts by the link's addresses, and
// opens the new URL as driver.DefaultMux does. The link does not inspect the data: with TLS, the client must be given
// the server's name, or trust the link's address. The error is ErrInvalid for a URL without hosts. It is also
// ErrInvalid if clients discover further servers (of a cluster, or a master behind sentinels), because they would
// bypass the link.
func URL(rawURL string) conformance.LinkedFunc {
	return func(ctx context.Context) (backend.Backend, conformance.Link, error) {
		hosts, err := hostsOf(rawURL)
		if err != nil {
			return nil, nil, err
		}
		return Linked(hosts, func(ctx context.Context, addrs []string) (backend.Backend, error) {
			b, _, err := driver.Open(ctx, withHosts(rawURL, addrs))
			return b, err
		})(ctx)
	}
}

// Linkable reports, as ErrInvalid, why URL cannot put a link in front of the store that rawURL names.
func Linkable(rawURL string) error {
	_, err := hostsOf(rawURL)
	return err
}

// defaultPorts are the ports of servers whose URL names none, by scheme.
var defaultPorts = map[string]string{
	"redis": "6379", "rediss": "6379", "redis+redlock": "6379", "rediss+redlock": "6379",
	"memcached": "11211", "memcacheds": "11211", "zookeeper": "2181", "zookeepers": "2281", "etcd": "2379",
	"etcds": "2379", "postgres": "5432", "postgresql": "5432",
}

// hostsOf returns the servers' addresses in a URL, each host:port.
func hostsOf(rawURL string) ([]string, error) {
	u, err := driver.SplitURL(rawURL)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(u.Scheme, "+cluster") || strings.HasSuffix(u.Scheme, "+sentinel") {
		return nil, fmt.Errorf("%w: %s: clients find servers by themselves, and would go round a link", backend.ErrInvalid,
			u.Scheme)
	}
	if strings.Contains(u.Query, "lock_node=") {
		return nil, fmt.Errorf("%w: %s: lock_node names servers that would be reached without the link", backend.ErrInvalid,
			u.Scheme)
	}
	if len(u.Hosts) == 0 {
		return nil, fmt.Errorf("%w: %s: no host to put a link before", backend.ErrInvalid, u.Scheme)
	}
	hosts := make([]string, len(u.Hosts))
	for i, h := range u.Hosts {
		port, known := defaultPorts[u.Scheme]
		if _, _, err := net.SplitHostPort(h); err != nil && !known {
			return nil, fmt.Errorf("%w: %s: a host needs its port for a link, as in localhost:1234", backend.ErrInvalid,
				u.Scheme)
		}
		if hosts[i], err = driver.HostPort(h, port); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", backend.ErrInvalid, u.Scheme, err)
		}
	}
	return hosts, nil
}

// withHosts replaces the hosts of rawURL, which hostsOf accepts.
func withHosts(rawURL string, hosts []string) string {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, rest := rest[:end], rest[end:]
	user := authority[:strings.LastIndexByte(authority, '@')+1]
	return scheme + "://" + user + strings.Join(hosts, ",") + rest
}
