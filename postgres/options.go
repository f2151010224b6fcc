package postgres

import (
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
	// MaxLeases is how many leases a Backend may have, held or waited for at the server: at least 4, by default 32, and
	// at most a quarter of the server's shared lock table, because everybody's statements fail when that is full. Each
	// has its own connection, also each of several shared leases on one key; there is one more connection to look
	// around with. Half of MaxLeases may wait at the server, others poll. One more lease is ErrExhausted, or waits for
	// its turn in order of arrival if it may wait.
	// Connections that were idle for a minute are closed, except one.
	MaxLeases int

	// Durable makes every grant wait until the server's log is on its own disk, so that tokens also increase across a
	// crash of the server, though not across a failover: Guarantees.Fencing is FencingRestart then.
	Durable bool

	// Timeout bounds each request; 2 s if zero.
	Timeout time.Duration

	// BeforeConnect, if not nil, may change the copy of the configuration that the next connection uses, for example
	// to set a password that expires. Connections are opened as long as the Backend is open. BeforeConnect must return
	// soon after its context ends, and may be called concurrently. Its error fails the call that needs the connection,
	// with ErrUnavailable. The field of this name in pgxpool.Config fits.
	BeforeConnect func(ctx context.Context, config *pgx.ConnConfig) error
}

func (o *Options) validate() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	if v.Timeout == 0 {
		v.Timeout = defaultTimeout
	}
	if v.MaxLeases == 0 {
		v.MaxLeases = defaultLeases
	}
	bad := func(format string, args ...any) (Options, error) {
		return v, fmt.Errorf("%w: %s", backend.ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case v.MaxLeases < leastLeases || v.MaxLeases > mostLeases:
		return bad("max leases %d is not from %d to %d", v.MaxLeases, leastLeases, mostLeases)
	case v.Timeout < 0:
		return bad("timeout %v is negative", v.Timeout)
	}
	return v, nil
}

// New returns a Backend that opens its own connections with config, which it copies. Like opening by URL, New checks
// the server once, within ctx. Close closes only these connections. Nil opts are the defaults.
//
// New takes a configuration and not a pool, because a lease is a session: a pool would pass the session on with its
// locks, and only a reader on the connection notices at once that the session has ended. A *pgxpool.Pool has the
// configuration:
//
//	c := pool.Config()
//	store, err := postgres.New(ctx, c.ConnConfig, &postgres.Options{BeforeConnect: c.BeforeConnect})
//
// The store's connections do not count against the pool's limits, and the pool's AfterConnect does not run on them. Put
// settings of the session in RuntimeParams, for example RuntimeParams["role"] for SET ROLE. For a *sql.DB see
// [NewFromDB].
func New(ctx context.Context, config *pgx.ConnConfig, opts *Options) (*Backend, error) {
	o, err := opts.validate()
	if err != nil {
		return nil, err
	}
	if config == nil || config.DialFunc == nil {
		return nil, fmt.Errorf("%w: the config is not made by pgx.ParseConfig", backend.ErrInvalid)
	}
	b := newBackend(config, o)
	if err := b.call(ctx, nil, b.look); err != nil {
		calls.CloseUnopened(ctx, b)
		return nil, err
	}
	return b, nil
}

// look connects for the first time.
func (b *Backend) look(ctx context.Context) error {
	return b.onFreeSession(ctx, func(s *session) error {
		b.probed.Store(true)
		b.room(s.server.locks)
		return nil
	})
}
