package memcached

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/anylock/lock/backend"
)

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// oneServer wraps dial so that it rejects host names with several addresses of one family. The addresses may belong to
// several servers, each with its own locks.
func oneServer(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		if _, err := netip.ParseAddr(host); err != nil {
			list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
			if err != nil {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
			}
			if err := oneOfEach(host, list); err != nil {
				return nil, err
			}
		}
		return dial(ctx, network, addr)
	}
}

func oneOfEach(host string, list []netip.Addr) error {
	first := make(map[bool]netip.Addr) // the first address of each family; true is IPv4
	for _, a := range list {
		a = a.Unmap()
		if other, ok := first[a.Is4()]; ok && other != a {
			return fmt.Errorf("%w: host %q has several addresses (%v, %v), and locks are kept on one server",
				backend.ErrInvalid, host, other, a)
		}
		first[a.Is4()] = a
	}
	return nil
}
