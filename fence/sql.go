package fence

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/anylock/lock/backend"
)

// A Dialect is the SQL of a database.
type Dialect int

// The databases whose SQL a Table or a Column can use.
const (
	Postgres Dialect = iota + 1
	MySQL            // and MariaDB
	SQLite           // 3.35 or later
)

// statements are those of a Table or Column. A plain SELECT would not do: it reads the transaction's snapshot, which
// may be older than the latest write. raise updates the row's newest version and locks the row until the transaction
// ends.
type statements struct {
	raise      string // raises the row's token to the given one if that is higher, and returns it unless read is set
	read       string // returns the row's token and locks the row; empty if raise does
	tokenFirst bool   // the token is the first argument of raise
}

func (s statements) check(ctx context.Context, tx *sql.Tx, resource string, key any, token uint64) error {
	if s.raise == "" {
		return fmt.Errorf("%w: unknown dialect", backend.ErrInvalid)
	}
	if err := Compare(resource, token, 0); err != nil {
		return err
	}
	args := []any{key, int64(token)}
	if s.tokenFirst {
		args[0], args[1] = args[1], args[0]
	}
	query := s.raise
	if s.read != "" {
		if _, err := tx.ExecContext(ctx, s.raise, args...); err != nil {
			return fmt.Errorf("fence: raise the token of %q: %w", resource, err)
		}
		query, args = s.read, []any{key}
	}
	var seen uint64
	if err := tx.QueryRowContext(ctx, query, args...).Scan(&seen); err != nil {
		return fmt.Errorf("fence: check the token of %q: %w", resource, err)
	}
	return Compare(resource, token, seen)
}

// Table is a table with one row for each resource: its name, and the highest token seen. A Table is a plain value, safe
// for concurrent use.
type Table struct {
	dialect Dialect
	name    string
	sql     statements
}

// NewTable returns the table with that name, with its schema if necessary. The name is inserted into statements
// unquoted: never use untrusted input.
func NewTable(d Dialect, name string) Table {
	t := Table{dialect: d, name: name}
	switch d {
	case Postgres:
		t.sql.raise = `INSERT INTO ` + name + ` AS f (resource, token) VALUES ($1, $2)
			ON CONFLICT (resource) DO UPDATE SET token = GREATEST(f.token, excluded.token) RETURNING token`
	case SQLite:
		t.sql.raise = `INSERT INTO ` + name + ` AS f (resource, token) VALUES (?1, ?2)
			ON CONFLICT (resource) DO UPDATE SET token = MAX(f.token, excluded.token) RETURNING token`
	case MySQL:
		t.sql.raise = `INSERT INTO ` + name + ` (resource, token) VALUES (?, ?)
			ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))`
		t.sql.read = `SELECT token FROM ` + name + ` WHERE resource = ? FOR UPDATE`
	}
	return t
}

// Create creates the table if it does not exist. db is a *sql.DB, or a *sql.Tx if the database can roll back CREATE
// TABLE, which MySQL cannot.
func (t Table) Create(ctx context.Context, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}) error {
	// MySQL's text types treat "a", "A" and "a " as the same value.
	columns, known := map[Dialect]string{
		Postgres: `(resource text PRIMARY KEY, token bigint NOT NULL)`,
		SQLite:   `(resource TEXT PRIMARY KEY, token INTEGER NOT NULL)`,
		MySQL:    `(resource varbinary(1024) PRIMARY KEY, token bigint NOT NULL) ENGINE=InnoDB`,
	}[t.dialect]
	if !known {
		return fmt.Errorf("%w: unknown dialect", backend.ErrInvalid)
	}
	create := `CREATE TABLE IF NOT EXISTS ` + t.name + ` ` + columns
	if t.dialect == Postgres { // of concurrent CREATE TABLE IF NOT EXISTS, all but one may fail
		create = `DO $anylock$ BEGIN ` + create + `;
			EXCEPTION WHEN unique_violation OR duplicate_table OR duplicate_object THEN
			PERFORM FROM ` + t.name + ` LIMIT 0; END $anylock$`
	}
	if _, err := db.ExecContext(ctx, create); err != nil {
		return fmt.Errorf("fence: create %q: %w", t.name, err)
	}
	return nil
}

// Check returns a StaleError if resource has seen a token higher than this one. Otherwise the resource has seen this
// token once tx commits. Until tx ends, checks of the same resource in other transactions wait. So call it first in tx,
// before you read what the writes of tx depend on, and roll back after any error.
//
// At the isolation levels REPEATABLE READ and SERIALIZABLE the database may fail instead of waiting, with its own
// error: begin a new transaction, as always at these levels. resource is 1 to 1024 bytes of UTF-8 without NUL.
func (t Table) Check(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	if err := backend.ValidateKey(resource); err != nil {
		return err
	}
	return t.sql.check(ctx, tx, resource, resource, token)
}

// Column is a column of your table that keeps the highest token seen for its row, a signed 64-bit integer. NULL and 0
// mean that no token has been seen. A Column is a plain value, safe for concurrent use.
type Column struct {
	row string // prefix of a row's name in errors; the key follows it
	sql statements
}

// NewColumn returns the column token of a table whose column key is unique. The names are inserted into statements
// unquoted: never use untrusted input.
func NewColumn(d Dialect, table, key, token string) Column {
	c := Column{row: table + " " + key + "="}
	update := `UPDATE ` + table + ` SET ` + token + ` = `
	switch d {
	case Postgres:
		c.sql.raise = update + `GREATEST(COALESCE(` + token + `, 0), $2) WHERE ` + key + ` = $1 RETURNING ` + token
	case SQLite:
		c.sql.raise = update + `MAX(COALESCE(` + token + `, 0), ?2) WHERE ` + key + ` = ?1 RETURNING ` + token
	case MySQL:
		c.sql.raise, c.sql.tokenFirst = update+`GREATEST(COALESCE(`+token+`, 0), ?) WHERE `+key+` = ?`, true
		c.sql.read = `SELECT ` + token + ` FROM ` + table + ` WHERE ` + key + ` = ? FOR UPDATE`
	}
	return c
}

// Check is like Table.Check, for the row with that key. Without such a row the error matches sql.ErrNoRows.
func (c Column) Check(ctx context.Context, tx *sql.Tx, key any, token uint64) error {
	return c.sql.check(ctx, tx, c.row+fmt.Sprint(key), key, token)
}
