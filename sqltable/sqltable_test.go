package sqltable

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/tablesql"
)

func TestBadNames(t *testing.T) {
	for _, name := range []string{"a b", "a;b", `"a"`, "a.b.c", ".a", "a.", "1a", "ä", "a--", strings.Repeat("a", 64)} {
		if _, err := DDL(Postgres, name); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", name, err)
		}
	}
	for _, name := range []string{"", "a", "_a1", "app.locks", strings.Repeat("a", 63)} {
		if ddl, err := DDL(MySQL, name); err != nil || !strings.Contains(ddl, "IF NOT EXISTS "+name) {
			t.Errorf("%q: %q, %v", name, ddl, err)
		}
	}
	if _, err := DDL(0, ""); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("no dialect: %v", err)
	}
	if _, err := New(context.Background(), nil, Postgres, nil); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("no database: %v", err)
	}
}

// A downServer is a driver.Connector whose server is down.
type downServer struct{}

func (downServer) Connect(context.Context) (driver.Conn, error) {
	return nil, errors.New("connection refused")
}
func (downServer) Driver() driver.Driver { return nil }

// If New fails, the caller's database stays open, so that the caller can try again.
func TestFailedNewLeavesDatabaseOpen(t *testing.T) {
	db := sql.OpenDB(downServer{})
	defer db.Close()
	for range 2 {
		_, err := New(t.Context(), db, Postgres, &Options{CloseDB: true})
		if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("a server that is down: %v", err)
		}
	}
}

// unused has the methods of a driver.Connector and its connection that do nothing in these tests.
type unused struct{}

func (unused) Driver() driver.Driver               { return nil }
func (unused) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (unused) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (unused) Close() error                        { return nil }

// A recorder is a driver.Connector and its connection. Each of its statements changes one row. It records their first
// arguments.
type recorder struct {
	unused
	first []int64
}

func (r *recorder) Connect(context.Context) (driver.Conn, error) { return r, nil }

func (r *recorder) ExecContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Result, error) {
	r.first = append(r.first, args[0].Value.(int64))
	return driver.RowsAffected(1), nil
}

// Leases with different TTLs need a statement each. Those with the shortest TTL have the least time, and are the first.
func TestShortestTTLIsRenewedFirst(t *testing.T) {
	r := new(recorder)
	db := sql.OpenDB(r)
	defer db.Close()
	b := newBackend(db, Postgres, Options{Table: "locks", Timeout: time.Minute})
	defer b.Close()
	var renewals []backend.Renewal
	for _, minutes := range []time.Duration{5, 2, 8, 3, 9, 4, 7, 1, 6} {
		ttl := minutes * time.Minute
		request := backend.Request{Key: ttl.String(), Owner: ttl.String(), TTL: ttl}
		l, err := b.leases.Grant(t.Context(), request, kit.Grant{Token: 1, Sent: time.Now(), TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		renewals = append(renewals, backend.Renewal{Lease: l, TTL: ttl})
	}
	for i, err := range b.RenewBatch(t.Context(), renewals) {
		if err != nil {
			t.Errorf("lease %d: %v", i, err)
		}
	}
	if len(r.first) != len(renewals) || !slices.IsSorted(r.first) {
		t.Errorf("TTLs in µs, in the order of their statements: %d", r.first)
	}
}

// An outage is a driver.Connector whose server refuses a grant, fails for a while, and grants the key then.
type outage struct {
	unused
	queries int
}

func (o *outage) Connect(context.Context) (driver.Conn, error) { return o, nil }

func (o *outage) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), nil // a release
}

func (o *outage) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	const down = 20 // queries
	o.queries++
	switch {
	case o.queries > 1 && o.queries < down:
		return nil, errors.New("connection refused")
	case o.queries > 1 && strings.Contains(query, "INSERT"):
		return &tokens{1}, nil
	}
	return new(tokens), nil // a grant without a token is refused; a key without a row is free
}

// tokens are the remaining rows of a result.
type tokens []int64

func (t *tokens) Columns() []string { return []string{"token"} }
func (t *tokens) Close() error      { return nil }

func (t *tokens) Next(row []driver.Value) error {
	if len(*t) == 0 {
		return io.EOF
	}
	row[0], *t = (*t)[0], (*t)[1:]
	return nil
}

// Once a grant has been refused, a waiter survives an outage, even if the outage begins before the holder is read.
func TestOutageAfterRefusal(t *testing.T) {
	db := sql.OpenDB(new(outage))
	defer db.Close()
	db.SetMaxOpenConns(1)
	b := newBackend(db, Postgres, Options{Table: "locks", Timeout: time.Minute})
	defer b.Close()
	r := backend.Request{Key: "k", Owner: "o", TTL: time.Minute, Wait: true}
	l, err := b.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// A silentHost is a driver.Connector whose first connection times out, as if the first of several hosts were silent and
// the others not ready yet.
type silentHost struct {
	recorder
	tries int
}

func (s *silentHost) Connect(context.Context) (driver.Conn, error) {
	if s.tries++; s.tries == 1 {
		return nil, errors.Join(fmt.Errorf("silent: %w", context.DeadlineExceeded), errors.New("read only connection"))
	}
	return &s.recorder, nil
}

// A connection that times out within the time of its request is tried again.
func TestConnectTimeoutIsRepeated(t *testing.T) {
	db := sql.OpenDB(new(silentHost))
	defer db.Close()
	b := newBackend(db, Postgres, Options{Table: "locks", Timeout: time.Minute})
	defer b.Close()
	if rows, _, err := b.change(t.Context(), b.statements.purge, int64(1), []byte("k")); rows != 1 || err != nil {
		t.Errorf("%d rows, %v", rows, err)
	}
}

type stateError string

func (e stateError) Error() string    { return "state " + string(e) }
func (e stateError) SQLState() string { return string(e) }

func TestClasses(t *testing.T) {
	for want, list := range map[class][]error{
		conflict: {stateError("40001"), stateError("40P01"), errors.New("Error 1213 (40001): Deadlock found"),
			errors.New("Error 1205 (HY000): Lock wait timeout exceeded"), errors.New("database is locked (5) (SQLITE_BUSY)"),
			stateError("57014"), errors.New("Error 1317 (70100): Query execution was interrupted"),
			errors.New("Error 1969 (70100): Query execution was interrupted (max_statement_time exceeded)")},
		demoted: {stateError("25006"),
			errors.New("Error 1290 (HY000): The MySQL server is running with the --read-only option")},
		gone: {stateError("57P01"), stateError("08006"), errors.New("unexpected EOF"),
			stateError("57P05"), stateError("XX000"), errors.New("Error 1927 (70100): Connection was killed"),
			errors.New("Error 1047 (08S01): WSREP has not yet prepared node for application use"),
			errors.New("Error 1105 (HY000): target: app.0.primary: vttablet: rpc error: code = Unavailable"),
			errors.New("Error 2013 (HY000): Lost connection to MySQL server during query"),
			errors.New("Error 4031 (HY000): The client was disconnected by the server because of inactivity"),
			context.DeadlineExceeded},
		noTable: {stateError("42P01"), errors.New("Error 1146 (42S02): Table 'a.b' doesn't exist"),
			errors.New("no such table: anylock")},
		impossible: {stateError("42501"), stateError("42P10"), errors.New("attempt to write a readonly database")},
		refused: {stateError("53100"), errors.New("Error 1064 (42000): You have an error in your SQL syntax"),
			errors.New("Error 1114 (HY000): The table 'anylock' is full"), errors.New("database or disk is full (13)")},
		unknown: {stateError("28P01")},
	} {
		for _, err := range list {
			if got := classify(fmt.Errorf("wrapped: %w", err)); got != want {
				t.Errorf("%v: class %d, want %d", err, got, want)
			}
		}
	}
}

// MySQL's placeholders have no numbers, so an argument that is used twice is passed twice.
func TestStatementArgs(t *testing.T) {
	s := tablesql.Make(MySQL, "t", `UPDATE TABLE SET a=$2, b=$2 WHERE c=$1`)
	if got := fmt.Sprint(s.Text, s.Args("one", "two")); got != "UPDATE t SET a=?, b=? WHERE c=?[two two one]" {
		t.Error(got)
	}
	s = tablesql.Make(SQLite, "t", `SELECT greatest($1, NOW) FROM TABLE`)
	if !strings.HasPrefix(s.Text, "SELECT max(?1, CAST(unixepoch('subsec')") {
		t.Error(s.Text)
	}
}

// The name of a table stays as it is, even if it contains a word of a template.
func TestTableNameIsNoTemplate(t *testing.T) {
	for _, name := range []string{"NOW", "KNOWN", "EMPTY_BYTES", "TABLES"} {
		for _, d := range []Dialect{Postgres, MySQL, SQLite} {
			if s := tablesql.Make(d, name, `DELETE FROM TABLE`); s.Text != "DELETE FROM "+name {
				t.Errorf("%v: %s", d, s.Text)
			}
		}
	}
}

// A shared request fails before the database is used. The Backend of this test has no database.
func TestSharedLeasesAreUnsupported(t *testing.T) {
	for _, d := range []Dialect{Postgres, MySQL, SQLite} {
		b := newBackend(nil, d, Options{Table: "locks", Timeout: time.Second})
		for _, wait := range []bool{false, true} {
			r := backend.Request{Key: "k", Owner: "o", TTL: time.Minute, Wait: wait, Shared: true}
			if _, err := b.Acquire(t.Context(), r); !errors.Is(err, backend.ErrUnsupported) {
				t.Errorf("%v, wait=%v: %v, want ErrUnsupported", d, wait, err)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRenewalError(t *testing.T) {
	const ttl = 10 * time.Second
	for _, test := range []struct {
		row  backend.Holder
		want error
	}{
		{backend.Holder{Owner: "o", TTL: ttl}, nil},
		{backend.Holder{Owner: "o", TTL: ttl - time.Millisecond}, nil}, // the clock has moved by a step
		{backend.Holder{Owner: "o", TTL: ttl - 2*time.Millisecond}, errLocked},
		{backend.Holder{Owner: "o"}, backend.ErrLost},
		{backend.Holder{Owner: "other", TTL: ttl}, backend.ErrLost},
		{backend.Holder{}, backend.ErrLost},
	} {
		if err := renewalError(test.row, "o", ttl); !errors.Is(err, test.want) {
			t.Errorf("%+v: %v, want %v", test.row, err, test.want)
		}
	}
}

// Package kit rounds each TTL by the store's guarantees, so that a lease never lasts a fraction of a microsecond less.
func TestTTLsAreRoundedUp(t *testing.T) {
	for _, d := range []Dialect{Postgres, MySQL, SQLite} {
		if got := Guarantees(d).Round(time.Second + 1).Microseconds(); got != 1_000_001 {
			t.Errorf("%v: %d µs", d, got)
		}
	}
}

// On a store that replies at once, at least half of the waiters notice a release within 50 ms, whenever it happens.
func TestPauseIsShort(t *testing.T) {
	const rounds, most = 2000, 50 * time.Millisecond
	late := 0
	for i := range rounds {
		p := pollPause
		released := time.Second + time.Duration(i)*time.Millisecond/2
		var now time.Duration
		for now < released {
			now += p.Next(0)
		}
		if now-released > most {
			late++
		}
	}
	if late > rounds/2 {
		t.Errorf("%d of %d waiters take longer than %v", late, rounds, most)
	}
}

var _ kit.Requests = (*Backend)(nil)
