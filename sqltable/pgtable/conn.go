package pgtable

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/anylock/lock/internal/pgurl"
)

// A connector opens connections for database/sql. pgx also has a driver for database/sql, but it needs modules that no
// other store needs, and prepared statements, which poolers may lose.
type connector struct {
	config  *pgconn.Config
	timeout time.Duration // limits Connect: package database/sql also connects with a context that never ends
	slots   chan struct{} // holds an element for each connection, until pgx has cleaned up behind it
}

// newConnector returns a connector that has at most conns connections at a time. It changes config: no silent host uses
// up the time of the other hosts, and a new connection has the time limit timeout. Connect removes the limit when the
// connection is ready. A connection that pgx opens for a cancel request keeps the limit.
func newConnector(config *pgconn.Config, timeout time.Duration, conns int) connector {
	if n := pgurl.Hosts(config); n > 1 && config.ConnectTimeout == 0 {
		config.ConnectTimeout = timeout / time.Duration(n+1)
	}
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		end := time.Now().Add(timeout)
		ctx, cancel := context.WithDeadline(ctx, end)
		defer cancel()
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		_ = c.SetDeadline(end)
		return c, nil
	}
	return connector{config, timeout, make(chan struct{}, conns)}
}

func (c connector) Driver() driver.Driver { return noDriver{} }

type noDriver struct{}

func (noDriver) Open(string) (driver.Conn, error) { return nil, errors.ErrUnsupported }

// setUp overrides the database's default isolation level if the connection is to the server itself. A pooler would keep
// the setting for its other clients. setUp returns whether the connection is direct.
const setUp = `SELECT CASE WHEN pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) $1::bigint
	THEN pg_catalog.set_config('default_transaction_isolation', 'read committed', false) END IS NOT NULL`

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, errNoSlot
	}
	pg, err := pgconn.ConnectConfig(ctx, c.config)
	if err != nil {
		<-c.slots
		return nil, err
	}
	_ = pg.Conn().SetDeadline(time.Time{})
	made := &conn{connector: c, pg: pg, prepared: make(map[string]string)}
	pid := strconv.FormatUint(uint64(pg.PID()), 10)
	result := pg.ExecParams(ctx, setUp, [][]byte{[]byte(pid)}, nil, nil, nil).Read()
	if result.Err != nil {
		_ = made.Close()
		return nil, result.Err
	}
	const yes = "t"
	made.prepares = len(result.Rows) == 1 && string(result.Rows[0][0]) == yes
	return made, nil
}

var errNoSlot = errors.New("earlier connections are still being closed, because the server does not answer")

// A conn is one connection. Statements commit by themselves: there are no transactions.
type conn struct {
	connector connector
	pg        *pgconn.PgConn
	prepares  bool              // prepare statements, because there is no pooler in between
	prepared  map[string]string // names of prepared statements, by their text; a Backend has about 30 statements
}

const (
	codeNoStatement = "26000" // the session has changed: there is a pooler in between after all
	inBinary        = 1       // format of arguments and results; the text of a bytea would depend on bytea_output
	oidBytea        = 17
	oidInt8         = 20
	oidText         = 25
	closeTimeout    = time.Second
)

var results = []int16{inBinary} // for all columns

func (c *conn) run(ctx context.Context, query string, args []driver.NamedValue) (*pgconn.Result, error) {
	if c.pg.IsClosed() {
		return nil, driver.ErrBadConn // nothing was sent, whereas pgconn.SafeToRetry is wrong after a failed read
	}
	values, formats := make([][]byte, len(args)), make([]int16, len(args))
	for i, a := range args {
		switch v := a.Value.(type) {
		case []byte:
			values[i], formats[i] = v, inBinary
		case int64:
			values[i] = strconv.AppendInt(nil, v, 10)
		default:
			return nil, fmt.Errorf("argument %d has the type %T", a.Ordinal, v)
		}
	}
	if c.prepares {
		result, err := c.runPrepared(ctx, query, values, formats)
		if state := (*pgconn.PgError)(nil); !errors.As(err, &state) || state.Code != codeNoStatement {
			return result, err
		}
		c.prepares = false
	}
	result := c.pg.ExecParams(ctx, query, values, nil, formats, results).Read()
	return result, result.Err
}

func (c *conn) runPrepared(
	ctx context.Context, query string, values [][]byte, formats []int16,
) (*pgconn.Result, error) {
	name, ok := c.prepared[query]
	if !ok {
		const length = 16
		sum := sha256.Sum256([]byte(query))
		name = "anylock_" + hex.EncodeToString(sum[:length])
		if _, err := c.pg.Prepare(ctx, name, query, nil); err != nil {
			return nil, err
		}
		c.prepared[query] = name
	}
	result := c.pg.ExecPrepared(ctx, name, values, formats, results).Read()
	return result, result.Err
}

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.run(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(result.CommandTag.RowsAffected()), nil
}

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	result, err := c.run(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return &rows{result: result}, nil
}

// IsValid implements driver.Validator.
func (c *conn) IsValid() bool { return !c.pg.IsClosed() }

// Close closes the connection. If a request has broken it, pgx cancels the request in the background, and then waits
// for the server to close the connection. This takes at most twice the time limit of a request: otherwise, connections
// to a silent server would pile up.
func (c *conn) Close() error {
	if c.pg.IsClosed() {
		go func() {
			select {
			case <-c.pg.CleanupDone():
			case <-time.After(c.connector.timeout):
				_ = c.pg.Conn().Close()
				<-c.pg.CleanupDone()
			}
			<-c.connector.slots
		}()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	defer func() { <-c.connector.slots }()
	return c.pg.Close(ctx)
}

func (c *conn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c *conn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }

// rows are the rows of a reply that has been read completely.
type rows struct {
	result *pgconn.Result
	next   int
}

func (r *rows) Columns() []string {
	names := make([]string, len(r.result.FieldDescriptions))
	for i, f := range r.result.FieldDescriptions {
		names[i] = f.Name
	}
	return names
}

func (r *rows) Close() error { return nil }

func (r *rows) Next(values []driver.Value) error {
	if r.next == len(r.result.Rows) {
		return io.EOF
	}
	row := r.result.Rows[r.next]
	r.next++
	for i, value := range row {
		switch oid := r.result.FieldDescriptions[i].DataTypeOID; {
		case value == nil:
			values[i] = nil
		case oid == oidInt8:
			values[i] = int64(binary.BigEndian.Uint64(value))
		case oid == oidBytea, oid == oidText:
			values[i] = value
		default:
			return fmt.Errorf("column %d has the type %d", i+1, oid)
		}
	}
	return nil
}
