package sqltable

import (
	"context"
	"fmt"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// columns are the columns of the table.
var columns = map[Dialect]string{
	// Without its schema, Postgres looks bytea up in the search_path. A half-full page has room for renewed rows.
	Postgres: columnsOf("pg_catalog.bytea", "pg_catalog.bytea") + " WITH (fillfactor = 50)",
	MySQL:    columnsOf("varbinary(1024)", "varbinary(255)") + " ENGINE=InnoDB",
	SQLite:   columnsOf("BLOB", "BLOB") + " WITHOUT ROWID",
}

// columnsOf returns the columns for these types of names and owners. The types are binary, because MySQL's text types
// treat "a", "A" and "a " as the same value.
func columnsOf(name, owner string) string {
	return `(
	name ` + name + ` NOT NULL PRIMARY KEY,
	owner ` + owner + ` NOT NULL,
	token bigint NOT NULL,
	expires bigint NOT NULL
)`
}

// DDL returns the statement that creates a table of leases, for the application's migrations. An empty name means
// DefaultTable. Errors match backend.ErrInvalid.
func DDL(d Dialect, table string) (string, error) {
	o, err := (&Options{Table: table}).validate(d)
	if err != nil {
		return "", err
	}
	return "CREATE TABLE IF NOT EXISTS " + o.Table + " " + columns[d], nil
}

// open checks that the table exists and is writable, and that the database can keep locks.
func (b *Backend) open(ctx context.Context) error {
	// This changes no row, but fails unless the table can be read and written.
	if _, _, err := b.change(ctx, b.statements.release, []byte("anylock: open"), []byte("nobody")); err != nil {
		return err
	}
	f, err := b.read(ctx)
	if err != nil {
		return err
	}
	for _, finding := range kit.Apply(rules[b.dialect], "", f) {
		if finding.Severity == backend.Critical {
			return fmt.Errorf("%w: %s: %s", backend.ErrUnsupported, finding.Found, finding.Why)
		}
	}
	return nil
}
