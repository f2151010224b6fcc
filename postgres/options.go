package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/calls"
)

const (
	defaultTimeout = 2 * time.Second
	defaultLeases  = 32
	leastLeases    = 4
	mostLeases     = 10000
)

// Options configure a Backend. Nil and the zero Options mean the defaults. Clients exclude each other only if they use
// the same database.
type Options struct {
	// MaxLeases is the maximum number of leases that a Backend holds or waits for at the server: at least 4, by default
	// 32. It is at most a quarter of the server's shared lock table, because a full table makes every client's statements
	// fail. Each lease has its own connection, even if several shared leases are on one key. One extra connection is used
	// for inspection. Half of MaxLeases may wait in the server's queue; other waiters poll. Beyond the limit, a request
	// that may wait does so in order of arrival, and any other request fails with ErrExhausted. Connections that have been
	// idle for a minute are closed, except one.
	MaxLeases int

	// Durable delays a grant until its transaction id is in the server's log on the server's own disk. Tokens then
	// increase even across a crash of the server, but not across a failover. Guarantees.Fencing becomes FencingRestart.
	Durable bool

	// Timeout bounds each request; 2 s if zero.
	Timeout time.Duration

	// BeforeConnect, if not nil, may change the copy of the configuration that the next connection uses, for example to
	// set a password that expires. Connections are opened at any time while the Backend is open. BeforeConnect must return
	// soon after its context ends, and may be called concurrently. If it returns an error, the call that needs the
	// connection fails with ErrUnavailable. The function of the same name in pgxpool.Config can be used.
	BeforeConnect func(ctx context.Context, config *pgx.ConnConfig) error
}

func (o *Options) validate() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	v.Timeout = cmp.Or(v.Timeout, defaultTimeout)
	v.MaxLeases = cmp.Or(v.MaxLeases, defaultLeases)
	switch {
	case v.MaxLeases < leastLeases || v.MaxLeases > mostLeases:
		return v, fmt.Errorf("%w: max leases %d, want %d to %d", backend.ErrInvalid, v.MaxLeases, leastLeases, mostLeases)
	case v.Timeout < 0 || v.Timeout > backend.MaxTTL: // sums of longer ones would overflow
		return v, fmt.Errorf("%w: timeout %v, want 0 to %v", backend.ErrInvalid, v.Timeout, backend.MaxTTL)
	}
	return v, nil
}

// New returns a Backend that opens its own connections with config, which it copies. Like opening by URL, New checks
// the server once, within ctx. Close closes only these connections. Nil opts mean the defaults.
//
// New needs a configuration instead of a pool, because a lease is a session. A pool would hand the session to other
// callers, with its locks. Besides, only a reader on the connection detects at once that the session has ended. A
// *pgxpool.Pool provides the configuration:
//
//	c := pool.Config()
//	store, err := postgres.New(ctx, c.ConnConfig, &postgres.Options{BeforeConnect: c.BeforeConnect})
//
// The store's connections do not count against the pool's limits, and the pool's AfterConnect does not run on them. Put
// session settings in RuntimeParams. A role that is set there or by ALTER ROLE has no effect: the store's sessions keep
// the role that logged in, because only this role may see and end them. For a *sql.DB see [NewFromDB].
func New(ctx context.Context, config *pgx.ConnConfig, opts *Options) (*Backend, error) {
	o, err := opts.validate()
	if err != nil {
		return nil, err
	}
	if config == nil || config.DialFunc == nil || config.BuildFrontend == nil {
		return nil, fmt.Errorf("%w: the config is not made by pgx.ParseConfig", backend.ErrInvalid)
	}
	b := newBackend(config, o)
	if err := b.call(ctx, nil, b.checkServer); err != nil {
		calls.CloseUnopened(ctx, b)
		return nil, err
	}
	return b, nil
}

// checkServer opens the first connection, which checks the server.
func (b *Backend) checkServer(ctx context.Context) error {
	return b.onFreeSession(ctx, func(s *session) error {
		b.probed.Store(true)
		b.limitLeases(s.server.locks)
		return nil
	})
}
