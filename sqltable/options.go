package sqltable

import (
	"cmp"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/tablesql"
)

// A Dialect is the SQL dialect of a database.
type Dialect = tablesql.Dialect

// The databases that can keep the table.
const (
	Postgres = tablesql.Postgres // 12 or later
	MySQL    = tablesql.MySQL    // and MariaDB, 10.6 or later
	SQLite   = tablesql.SQLite   // 3.42 or later
)

// DefaultTimeout is the time limit of a request if Options.Timeout is zero.
const DefaultTimeout = 2 * time.Second

// DefaultTable is the name of the table if Options.Table is empty.
const DefaultTable = tablesql.DefaultTable

// Options configure a Backend. Nil and the zero Options mean the defaults.
type Options struct {
	// Table is the name of the table, "anylock" if empty: letters, digits and _, and a schema with a dot if necessary.
	// Clients exclude each other only if they use the same table.
	Table string

	// NoCreate means that the table must exist. Otherwise it is created if it is missing. See DDL.
	NoCreate bool

	// Timeout bounds each request; 2 s if zero.
	Timeout time.Duration

	// CloseDB makes Close close the database, too. If New fails, the database stays open.
	CloseDB bool
}

func (o *Options) validate(d Dialect) (Options, error) {
	v := *cmp.Or(o, &Options{})
	v.Timeout = cmp.Or(v.Timeout, DefaultTimeout)
	v.Table = cmp.Or(v.Table, DefaultTable)
	switch {
	case !d.Valid():
		return v, fmt.Errorf("%w: unknown dialect %d", backend.ErrInvalid, d)
	case !tablesql.ValidTable(v.Table):
		return v, fmt.Errorf("%w: %q cannot be the name of a table: use letters, digits and _", backend.ErrInvalid, v.Table)
	case v.Timeout < 0:
		return v, fmt.Errorf("%w: timeout %v is negative", backend.ErrInvalid, v.Timeout)
	}
	return v, nil
}
