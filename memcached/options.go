package memcached

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/anylock/lock/backend"
)

const (
	defaultTimeout = 2 * time.Second
	defaultConns   = 32
	maxConns       = 1000
)

// Options configure a Backend. Nil and the zero Options mean the defaults.
type Options struct {
	// Timeout limits each step (an acquire, a renewal, a release), including repetitions after a broken connection; 2 s if
	// zero. If the reply to an acquire is slow, a renewal follows, which is a step of its own.
	Timeout time.Duration

	// MaxConns is the maximum number of connections; 32 if zero. Each connection serves one operation at a time.
	MaxConns int

	// DialContext opens the connections, for example with TLS. If nil, connections are plain TCP, and a host name with
	// several addresses of one family is rejected, because these may belong to several servers.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
}

func (o *Options) validate() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	if v.Timeout == 0 {
		v.Timeout = defaultTimeout
	}
	if v.MaxConns == 0 {
		v.MaxConns = defaultConns
	}
	if v.Timeout < 0 {
		return v, fmt.Errorf("%w: timeout %v is negative", backend.ErrInvalid, v.Timeout)
	}
	if v.MaxConns < 1 || v.MaxConns > maxConns {
		return v, fmt.Errorf("%w: %d connections are not from 1 to %d", backend.ErrInvalid, v.MaxConns, maxConns)
	}
	return v, nil
}

// New returns a Backend on the server at addr, a host:port. Like opening by URL, New checks, within ctx, that memcached
// replies and keeps items. Nil opts are the defaults.
//
// New takes an address and not a *memcache.Client, because a Client does not reveal its servers, and may send the two
// requests of a compare-and-swap over two connections. The numbers that a swap compares start again when the server
// restarts. So a number that was read before a restart could match another owner's item. One connection prevents that,
// because it does not survive a restart. The fields Timeout and DialContext of a *memcache.Client fit those of Options.
func New(ctx context.Context, addr string, opts *Options) (*Backend, error) {
	o, err := opts.validate()
	if err != nil {
		return nil, err
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("%w: address %q: %v", backend.ErrInvalid, addr, err)
	}
	return checked(ctx, newBackend(addr, o))
}
