// Package table has wrong ways to lock with a table of Postgres, and the correct store from which they differ.
package table

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/specimens/internal/sqltwin"
)

// Open opens the right store: a row for each key, which one statement takes if it is free by the server's clock. addrs
// is the address of one server.
func Open(ctx context.Context, addrs ...string) (backend.Backend, error) {
	return open(ctx, right(), addrs)
}

func right() sqltwin.Steps {
	return sqltwin.Steps{Schema: schema, Take: take, Renew: renew, Remove: remove, Read: read, Wait: sqltwin.Poll}
}

var promises = backend.Guarantees{
	MinTTL:      50 * time.Millisecond,
	Granularity: time.Millisecond,
	EnforcedBy:  "server clock",
	Fencing:     backend.FencingRestart,
	Wake:        backend.WakePoll,
	Consistency: backend.Linearizable,
	Reach:       backend.ReachNetwork,
}

const poolSize = 8

func open(ctx context.Context, how sqltwin.Steps, addrs []string) (backend.Backend, error) {
	config, err := pgx.ParseConfig("postgres://postgres@" + addrs[0] + "/postgres?sslmode=disable")
	if err != nil {
		return nil, err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // one round trip for each statement
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(poolSize)
	db.SetMaxIdleConns(poolSize)
	// Two clients that create a table at once may both fail: one after the other, by a lock.
	how.Schema = `DO $$ BEGIN PERFORM pg_advisory_xact_lock(0); ` + how.Schema + `; END $$`
	return sqltwin.Open(ctx, db, promises, how)
}

// schema keeps a row, and with it the last token, after its release.
const schema = `CREATE TABLE IF NOT EXISTS locks (
	key bytea PRIMARY KEY, owner bytea NOT NULL, token bigint NOT NULL, expires timestamptz NOT NULL)`

// takeSQL takes a key that is free or was taken by the same owner before, in one statement, by the server's clock.
const takeSQL = `INSERT INTO locks AS l VALUES ($1, $2, 1, clock_timestamp() + $3 * interval '1 ms')
	ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, token = l.token + 1,
		expires = clock_timestamp() + $3 * interval '1 ms'
	WHERE l.expires <= clock_timestamp() OR l.owner = excluded.owner
	RETURNING token`

func take(ctx context.Context, c *sql.Conn, r backend.Request, ttl time.Duration) (sqltwin.Row, error) {
	got := sqltwin.Row{Owner: r.Owner, Left: ttl}
	err := c.QueryRowContext(ctx, takeSQL, []byte(r.Key), []byte(r.Owner), ttl.Milliseconds()).Scan(&got.Token)
	if errors.Is(err, sql.ErrNoRows) {
		return read(ctx, c, r.Key)
	}
	return got, err
}

// renewSQL prolongs what is still its owner's.
const renewSQL = `UPDATE locks SET expires = clock_timestamp() + $3 * interval '1 ms'
	WHERE key = $1 AND owner = $2 AND expires > clock_timestamp()`

func renew(ctx context.Context, c *sql.Conn, key, owner string, ttl time.Duration) (found bool, err error) {
	return sqltwin.Changed(c.ExecContext(ctx, renewSQL, []byte(key), []byte(owner), ttl.Milliseconds()))
}

// removeSQL frees what is still its owner's, and leaves the token.
const removeSQL = `UPDATE locks SET owner = '', expires = '-infinity'
	WHERE key = $1 AND owner = $2 AND expires > clock_timestamp()`

func remove(ctx context.Context, c *sql.Conn, key, owner string) (found bool, err error) {
	return sqltwin.Changed(c.ExecContext(ctx, removeSQL, []byte(key), []byte(owner)))
}

const readSQL = `SELECT owner, token, (extract(epoch FROM expires - clock_timestamp()) * 1000)::bigint
	FROM locks WHERE key = $1 AND expires > clock_timestamp()`

func read(ctx context.Context, c *sql.Conn, key string) (sqltwin.Row, error) {
	return sqltwin.Scan(c.QueryRowContext(ctx, readSQL, []byte(key)))
}
