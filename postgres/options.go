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

// New returns a Backend that makes connections of its own by config, which it copies, and looks at the server once. Nil
// opts are the defaults.
//
// It takes a configuration, not a pool: a lease lives in one session from grant to release, a pool hands sessions on
// with the locks that are in them, and the loss of a session is noticed at once only by who reads from it.
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
