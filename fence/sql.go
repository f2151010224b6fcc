package fence

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/tablesql"
)

// A Dialect is the SQL of a database. It is the type of the same name in package sqltable.
type Dialect = tablesql.Dialect

// The databases whose SQL a Table or a Column can use.
const (
	Postgres = tablesql.Postgres
	MySQL    = tablesql.MySQL  // and MariaDB
	SQLite   = tablesql.SQLite // 3.35 or later
)

// syntax holds the parts of SQL that differ between the dialects.
type syntax struct {
	token, key  string // placeholders; the token is the first argument of a statement
	greatest    string // function of two arguments
	returning   bool   // a statement that writes can return columns
	text, table string // type of the column resource, and the end of CREATE TABLE
}

// syntaxes has the syntax of each dialect. MySQL's text types treat "a", "A" and "a " as the same value, so it needs
// varbinary. Postgres would look a type without its schema up in the search_path.
var syntaxes = map[Dialect]syntax{
	Postgres: {token: "$1", key: "$2", greatest: "GREATEST", returning: true, text: "pg_catalog.text"},
	SQLite:   {token: "?1", key: "?2", greatest: "MAX", returning: true, text: "TEXT"},
	MySQL:    {token: "?", key: "?", greatest: "GREATEST", text: "varbinary(1024)", table: " ENGINE=InnoDB"},
}

func (s syntax) max(a, b string) string { return s.greatest + "(" + a + ", " + b + ")" }

// statements returns the statements that raise a number and read numbers, in the row of a key. They are empty for an
// unknown dialect.
func (s syntax) statements(raise, numbers, table, key string) statements {
	switch {
	case s == syntax{}:
		return statements{}
	case s.returning:
		return statements{raise: raise + ` RETURNING ` + numbers}
	}
	return statements{raise, `SELECT ` + numbers + ` FROM ` + table + ` WHERE ` + key + ` = ` + s.key + ` FOR UPDATE`}
}

// statements check tokens of one mode in a Table or Column. A plain SELECT would not do: it reads the transaction's
// snapshot, which may be older than the latest write. raise updates the row's newest version and locks the row until
// the transaction ends. It raises the number of its mode even if the token is stale. That refuses no live lease: all
// tokens below a stale token of the other mode belong to leases that have ended.
type statements struct {
	raise string // raises the mode's number to the token, and returns the numbers unless read is set
	read  string // returns the number to compare with and the mode's number, and locks the row; empty if raise does
}

func (s statements) check(ctx context.Context, tx *sql.Tx, resource string, key any, token uint64) error {
	if s.raise == "" {
		return fmt.Errorf("%w: unknown dialect, or no column for shared tokens", backend.ErrInvalid)
	}
	if err := Compare(resource, token, 0); err != nil {
		return err
	}
	query, args := s.raise, []any{int64(token), key}
	if s.read != "" {
		if _, err := tx.ExecContext(ctx, s.raise, args...); err != nil {
			return fmt.Errorf("fence: raise the token of %q: %w", resource, err)
		}
		query, args = s.read, []any{key}
	}
	var seen, kept uint64
	if err := tx.QueryRowContext(ctx, query, args...).Scan(&seen, &kept); err != nil {
		return fmt.Errorf("fence: check the token of %q: %w", resource, err)
	}
	if kept < token {
		return fmt.Errorf("%w: the column for the token of %q is no 64-bit integer: it keeps %d instead of %d",
			backend.ErrInvalid, resource, kept, token)
	}
	return Compare(resource, token, seen)
}

// Table is a table with one row for each resource: its name, the highest exclusive token and the highest shared token
// seen. A Table is a plain value, safe for concurrent use.
type Table struct {
	dialect           Dialect
	name              string
	exclusive, shared statements
}

// NewTable returns the table with that name, with its schema if necessary. The name is inserted into statements
// unquoted: never use untrusted input.
func NewTable(d Dialect, name string) Table {
	s := syntaxes[d]
	return Table{
		dialect: d, name: name,
		exclusive: tableStatements(s, name, "token", s.max("token", "shared_token")),
		shared:    tableStatements(s, name, "shared_token", "token"),
	}
}

// tableStatements returns the statements that raise column and compare the token with seen.
func tableStatements(s syntax, table, column, seen string) statements {
	as, update := ` AS f`, `ON CONFLICT (resource) DO UPDATE SET `+column+` = `+s.max("f."+column, "excluded."+column)
	if !s.returning {
		as, update = ``, `ON DUPLICATE KEY UPDATE `+column+` = `+s.max(column, "VALUES("+column+")")
	}
	insert := `INSERT INTO ` + table + as + ` (` + column + `, resource) VALUES (` + s.token + `, ` + s.key + `) `
	return s.statements(insert+update, seen+", "+column, table, "resource")
}

// Create creates the table if it does not exist. db is a *sql.DB, or a *sql.Tx if the database can roll back CREATE
// TABLE, which MySQL cannot.
func (t Table) Create(ctx context.Context, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}) error {
	s, known := syntaxes[t.dialect]
	if !known {
		return fmt.Errorf("%w: unknown dialect", backend.ErrInvalid)
	}
	columns := `(resource ` + s.text + ` PRIMARY KEY,
		token bigint NOT NULL DEFAULT 0, shared_token bigint NOT NULL DEFAULT 0)` + s.table
	create := tablesql.CreateTable(t.dialect, t.name, columns)
	if _, err := db.ExecContext(ctx, create); err != nil {
		return fmt.Errorf("fence: create %q: %w", t.name, err)
	}
	return nil
}

// Check returns a StaleError if resource has seen a token higher than this one, exclusive or shared. Otherwise the
// resource has seen this token once tx commits. Until tx ends, checks of the same resource in other transactions wait.
// So call Check first in tx, before you read the data that the writes of tx depend on, and roll back after any error.
//
// At the isolation levels REPEATABLE READ and SERIALIZABLE the database may fail with its own error instead of waiting.
// Then begin a new transaction, as always at these levels. resource is 1 to 1024 bytes of UTF-8 without NUL.
func (t Table) Check(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	if err := backend.ValidateKey(resource); err != nil {
		return err
	}
	return t.exclusive.check(ctx, tx, resource, resource, token)
}

// CheckShared is like Check for the token of a shared lease: it returns a StaleError only if resource has seen a higher
// exclusive token. The checks of two readers of one resource wait for each other as all checks do, so keep tx short.
func (t Table) CheckShared(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	if err := backend.ValidateKey(resource); err != nil {
		return err
	}
	return t.shared.check(ctx, tx, resource, resource, token)
}
