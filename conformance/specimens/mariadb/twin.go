// Package mariadb has wrong ways to lock with a table of MariaDB or MySQL, and the correct store from which they
// differ.
package mariadb

import (
	"context"
	"database/sql"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/specimens/internal/sqltwin"
	"github.com/anylock/lock/internal/servers"
)

// Open opens the right store: a row for each key, which one statement takes if the row is free. addrs is the address of
// one server.
func Open(ctx context.Context, addrs ...string) (backend.Backend, error) {
	return open(ctx, right(), addrs)
}

func right() sqltwin.Steps {
	return sqltwin.Steps{Schema: schema, Take: take, Renew: renew, Remove: remove, Read: read, Wait: sqltwin.Poll}
}

var promises = backend.Guarantees{
	MinTTL:      100 * time.Millisecond,
	Granularity: time.Millisecond,
	EnforcedBy:  "server clock",
	Fencing:     backend.FencingRestart,
	Wake:        backend.WakePoll,
	Consistency: backend.Linearizable,
	Reach:       backend.ReachNetwork,
}

const poolSize = 8

func open(ctx context.Context, how sqltwin.Steps, addrs []string) (backend.Backend, error) {
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.DBName = "root", "tcp", addrs[0], servers.MariaDatabase
	config.InterpolateParams = true // one round trip for each statement
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(poolSize)
	db.SetMaxIdleConns(poolSize)
	return sqltwin.Open(ctx, db, promises, how)
}

// schema keeps a row, and the last token in it, after its release.
const schema = `CREATE TABLE IF NOT EXISTS locks (name varbinary(1024) PRIMARY KEY, owner varbinary(255) NOT NULL,
	token bigint NOT NULL, expires bigint NOT NULL) ENGINE=InnoDB`

// now is the server's clock in milliseconds.
const now = `(timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6)) DIV 1000)`

// takeSQL takes a free row. MariaDB assigns from left to right: the condition is in WHERE, where nothing has changed
// yet.
const takeSQL = `UPDATE locks SET token = token + 1, expires = ` + now + ` + ?, owner = ?
	WHERE name = ? AND (expires <= ` + now + ` OR owner = ?)`

func take(ctx context.Context, c *sql.Conn, r backend.Request, ttl time.Duration) (sqltwin.Row, error) {
	key, owner := []byte(r.Key), []byte(r.Owner)
	for {
		taken, err := sqltwin.Changed(c.ExecContext(ctx, takeSQL, ttl.Milliseconds(), owner, key, owner))
		if err != nil {
			return sqltwin.Row{}, err
		}
		if found, err := readAny(ctx, c, r.Key); taken || found.Owner != "" || err != nil {
			return found, err
		}
		if _, err := c.ExecContext(ctx, `INSERT IGNORE INTO locks VALUES (?, '', 0, 0)`, key); err != nil {
			return sqltwin.Row{}, err
		}
	}
}

// readAny reads the row also if its lease has ended.
func readAny(ctx context.Context, c *sql.Conn, key string) (sqltwin.Row, error) {
	return sqltwin.Scan(c.QueryRowContext(ctx, `SELECT owner, token, expires - `+now+` FROM locks WHERE name = ?`,
		[]byte(key)))
}

func renew(ctx context.Context, c *sql.Conn, key, owner string, ttl time.Duration) (found bool, err error) {
	return sqltwin.Changed(c.ExecContext(ctx, `UPDATE locks SET expires = `+now+` + ?, token = token
		WHERE name = ? AND owner = ? AND expires > `+now, ttl.Milliseconds(), []byte(key), []byte(owner)))
}

func remove(ctx context.Context, c *sql.Conn, key, owner string) (found bool, err error) {
	return sqltwin.Changed(c.ExecContext(ctx, `UPDATE locks SET owner = '', expires = 0
		WHERE name = ? AND owner = ? AND expires > `+now, []byte(key), []byte(owner)))
}

func read(ctx context.Context, c *sql.Conn, key string) (sqltwin.Row, error) {
	return sqltwin.Scan(c.QueryRowContext(ctx, `SELECT owner, token, expires - `+now+`
		FROM locks WHERE name = ? AND expires > `+now, []byte(key)))
}
