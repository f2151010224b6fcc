package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/calls"
)

// A Mode is how a lease is tied to the server.
type Mode int

const (
	// ModeSession keeps a lease as a session-level advisory lock of a connection whose idle_session_timeout is the TTL. It
	// needs Postgres 14 or newer, and a connection to the server itself or through a pooler in session pooling.
	ModeSession Mode = iota
	// ModeTransaction keeps a lease as a lock of an open transaction whose idle_in_transaction_session_timeout is the TTL.
	// It needs Postgres 10 or newer, and works through poolers in transaction pooling, as PgBouncer.
	ModeTransaction
)

const (
	defaultTimeout = 2 * time.Second
	defaultLeases  = 32
	leastLeases    = 4
	mostLeases     = 10000
	// maxShare keeps MaxLate within what anybody can wait for.
	maxShare = 30 * time.Second
)

// Options configure a Backend. Nil and the zero Options mean the defaults. Clients exclude each other only if they use the
// same database; their Mode may differ.
type Options struct {
	// Mode is ModeSession unless set.
	Mode Mode

	// MaxLeases is how many leases a Backend may have, held or waited for at the server: at least 4, by default 32, and at most a quarter
	// of the server's shared lock table, because everybody's statements fail when that is full. Each has its own connection, unless
	// Share lets them share; there is one more connection to look around with. Half of MaxLeases may wait at the server, others
	// poll. One more lease is ErrExhausted, or waits for its turn in order of arrival if it may wait. Connections
	// that were idle for a minute are closed, except one.
	MaxLeases int

	// Share lets leases with the same TTL, up to Share, use one connection, as many as their owners fit into
	// track_activity_query_size: about 15 by default. The server has one timer per connection, so the leases of a
	// process that is frozen or cut off end together with the last one, up to Share late, which Guarantees.MaxLate
	// includes. (A process that lives ends each on time; when it dies, all end at once.) If a lease is renewed to a longer
	// TTL than it was granted for, the others may be late by that TTL. If a connection breaks, or an operator cancels a statement on
	// it, all its leases are lost. If the key is busy, a request that waits costs one more request, and its lease then has its own
	// connection. Default 0: no sharing; at most 30 s. ModeTransaction cannot share.
	Share time.Duration

	// Durable makes every grant wait until the server's log is on its own disk, so that tokens also increase across a crash of the
	// server, though not across a failover: Guarantees.Fencing is FencingRestart then.
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
	case v.Mode != ModeSession && v.Mode != ModeTransaction:
		return bad("unknown mode %d", v.Mode)
	case v.MaxLeases < leastLeases || v.MaxLeases > mostLeases:
		return bad("max leases %d is not from %d to %d", v.MaxLeases, leastLeases, mostLeases)
	case v.Share < 0 || v.Share > maxShare:
		return bad("share %v is not from 0 to %v", v.Share, maxShare)
	case v.Share > 0 && v.Mode == ModeTransaction:
		return bad("leases cannot share a connection in transaction mode")
	case v.Timeout < 0:
		return bad("timeout %v is negative", v.Timeout)
	}
	return v, nil
}

// New returns a Backend that makes connections of its own by config, which it copies, and looks at the server once. Nil
// opts are the defaults.
//
// It takes a configuration, not a pool: a lease lives in one session from grant to release, a pool hands sessions on with
// the locks that are in them, and the loss of a session is noticed at once only by who reads from it.
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
