package sqltable

import (
	"context"
	"fmt"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/tablesql"
)

// columns are the columns of the table. They are binary, because MySQL's text types treat "a", "A" and "a " as the same
// value. Postgres keeps a renewed row on its page if the page has room, hence the fillfactor.
var columns = map[Dialect]string{
	Postgres: `(
	name bytea PRIMARY KEY,
	owner bytea NOT NULL,
	token bigint NOT NULL,
	expires bigint NOT NULL
) WITH (fillfactor = 50)`,
	MySQL: `(
	name varbinary(1024) NOT NULL PRIMARY KEY,
	owner varbinary(255) NOT NULL,
	token bigint NOT NULL,
	expires bigint NOT NULL
) ENGINE=InnoDB`,
	SQLite: `(
	name BLOB NOT NULL PRIMARY KEY,
	owner BLOB NOT NULL,
	token INTEGER NOT NULL,
	expires INTEGER NOT NULL
) WITHOUT ROWID`,
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

// create creates the table.
func (b *Backend) create(ctx context.Context) error {
	_, err := b.db.ExecContext(ctx, tablesql.CreateTable(b.dialect, b.options.Table, columns[b.dialect]))
	return err
}

// open checks that the table exists and is writable, and that the database can keep locks.
func (b *Backend) open(ctx context.Context) error {
	// This changes no row, but fails unless the table can be read and written.
	if _, err := b.change(ctx, b.statements.release, []byte("anylock: open"), []byte("nobody")); err != nil {
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
