package memcached

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/backend/tlsurl"
	"github.com/anylock/lock/internal/calls"
)

const paramConns = "max_idle_conns"

func init() {
	driver.Register(driver.Driver{
		Name: "memcached",
		// One host: with several, a change in the list would move keys to other servers. gomemcache cannot authenticate.
		URLs: []driver.URLForm{{
			Scheme: "memcached", Secure: "memcacheds", Port: "11211", Hosts: driver.OneHost, DefaultHost: "localhost",
		}},
		Params: []driver.Param{
			driver.TimeoutParam(defaultTimeout),
			{Name: paramConns, Type: driver.Number, Min: 1, Max: maxConns,
				Help: fmt.Sprintf("most connections; default %d", defaultConns)},
		},
		Examples: []string{
			"memcached://localhost:11211?timeout=500ms",
			"memcacheds://localhost:11211?cacert=/etc/memcached/ca.pem",
		},
		Guarantees: guarantees(),
		Findings:   kit.Findings(rules),
		RoundTrips: driver.RoundTrips{Acquire: "3", Renew: "2", Release: "2"},
		Open:       func(ctx context.Context, u driver.URL) (backend.Backend, error) { return open(ctx, u) },
	})
}

// openTimeout limits the check of the server on opening, if Options.Timeout is longer.
const openTimeout = 5 * time.Second

func open(ctx context.Context, u driver.URL) (*Backend, error) {
	o, err := (&Options{Timeout: u.Duration(driver.ParamTimeout), MaxConns: int(u.Number(paramConns))}).validate()
	if err != nil {
		return nil, err
	}
	config, err := tlsurl.Config(u)
	if err != nil {
		return nil, err
	}
	if config != nil {
		o.DialContext = oneServer((&tls.Dialer{Config: config}).DialContext)
	}
	return checked(ctx, newBackend(u.Hosts[0], o))
}

// checked returns b if its server can keep locks. Otherwise it closes b and returns an error.
func checked(ctx context.Context, b *Backend) (*Backend, error) {
	if err := b.checkServer(ctx); err != nil {
		calls.CloseUnopened(ctx, b)
		return nil, err
	}
	return b, nil
}

// checkServer checks that the server can keep locks. It stores an item, removes the item by compare-and-swap, and draws
// a token, which creates the counter.
func (b *Backend) checkServer(ctx context.Context) error {
	_, _, err := operation(ctx, b, openTimeout, func(c *connection, _ bool) (none struct{}, err error) {
		r := record{owner: backend.NewOwner()}
		name := scratchName(r.owner[:32])
		if err := c.Add(&memcache.Item{Key: name, Value: r.encode(), Expiration: 10}); err != nil {
			return none, err
		}
		switch err := swap(c, name, r, nil, expireNow); {
		case errors.Is(err, backend.ErrLost):
			return none, fmt.Errorf("%w: the server does not keep an item", backend.ErrUnsupported)
		case err != nil:
			return none, err
		}
		_, err = b.nextToken(c)
		return none, err
	})
	return err
}
