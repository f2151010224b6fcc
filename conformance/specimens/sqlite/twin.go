// Package sqlite has wrong ways to lock with a table of SQLite, and the correct store from which they differ.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	_ "modernc.org/sqlite" // the database, in pure Go

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/specimens/internal/sqltwin"
)

// Open opens the right store: a row for each key, which a transaction reads and then writes. addrs is the path of the
// file.
func Open(ctx context.Context, addrs ...string) (backend.Backend, error) {
	return open(ctx, right(), addrs)
}

func right() sqltwin.Steps {
	return sqltwin.Steps{Schema: schema, Take: takeImmediate, Renew: renew, Remove: remove, Read: read, Wait: sqltwin.Poll}
}

var promises = backend.Guarantees{
	MinTTL:      100 * time.Millisecond,
	Granularity: time.Millisecond,
	EnforcedBy:  "clock of the host",
	Fencing:     backend.FencingRestart,
	Wake:        backend.WakePoll,
	Consistency: backend.Linearizable,
	Reach:       backend.ReachHost,
}

const poolSize = 4

func open(ctx context.Context, how sqltwin.Steps, addrs []string) (backend.Backend, error) {
	db, err := sql.Open("sqlite", "file:"+addrs[0]+
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(poolSize)
	db.SetMaxIdleConns(poolSize)
	return sqltwin.Open(ctx, db, promises, how)
}

// schema keeps a row, and the last token in it, after its release.
const schema = `CREATE TABLE IF NOT EXISTS locks (name BLOB PRIMARY KEY, owner BLOB NOT NULL,
	token INTEGER NOT NULL, expires INTEGER NOT NULL) WITHOUT ROWID`

// now is the host's clock in milliseconds.
const now = `CAST(unixepoch('subsec') * 1000 AS INTEGER)`

// takeImmediate waits for its turn to write before it reads.
func takeImmediate(ctx context.Context, c *sql.Conn, r backend.Request, ttl time.Duration) (sqltwin.Row, error) {
	return takeInTransaction(ctx, c, `BEGIN IMMEDIATE`, r, ttl)
}

// takeInTransaction reads the row, and writes if the row is free.
func takeInTransaction(
	ctx context.Context, c *sql.Conn, begin string, r backend.Request, ttl time.Duration,
) (got sqltwin.Row, err error) {
	if _, err := c.ExecContext(ctx, begin); err != nil {
		return got, err
	}
	defer func() {
		end := `COMMIT`
		if err != nil {
			end = `ROLLBACK`
		}
		_, failed := c.ExecContext(context.WithoutCancel(ctx), end)
		err = errors.Join(err, failed)
	}()
	if got, err = read(ctx, c, r.Key); err != nil || got.Owner != "" && got.Owner != r.Owner {
		return got, err
	}
	got = sqltwin.Row{Owner: r.Owner, Left: ttl}
	err = c.QueryRowContext(ctx, `INSERT INTO locks VALUES (?1, ?2, 1, `+now+` + ?3)
		ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, token = token + 1, expires = excluded.expires
		RETURNING token`, []byte(r.Key), []byte(r.Owner), ttl.Milliseconds()).Scan(&got.Token)
	return got, err
}

func renew(ctx context.Context, c *sql.Conn, key, owner string, ttl time.Duration) (found bool, err error) {
	return sqltwin.Changed(c.ExecContext(ctx, `UPDATE locks SET expires = `+now+` + ?3
		WHERE name = ?1 AND owner = ?2 AND expires > `+now, []byte(key), []byte(owner), ttl.Milliseconds()))
}

func remove(ctx context.Context, c *sql.Conn, key, owner string) (found bool, err error) {
	return sqltwin.Changed(c.ExecContext(ctx, `UPDATE locks SET owner = x'', expires = 0
		WHERE name = ?1 AND owner = ?2 AND expires > `+now, []byte(key), []byte(owner)))
}

func read(ctx context.Context, c *sql.Conn, key string) (sqltwin.Row, error) {
	return sqltwin.Scan(c.QueryRowContext(ctx, `SELECT owner, token, expires - `+now+`
		FROM locks WHERE name = ?1 AND expires > `+now, []byte(key)))
}
