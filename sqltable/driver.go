package sqltable

import (
	"context"
	"database/sql"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
)

const (
	paramTable  = driver.ParamPrefix + "table"
	paramCreate = driver.ParamPrefix + "create"
)

// Driver completes d, which has names, URLs and examples, with the fields that are the same for all databases. open
// opens the database of a URL, and need not connect to it.
func Driver(dialect Dialect, d driver.Driver, open func(u driver.URL) (*sql.DB, error)) driver.Driver {
	d.Params = append(d.Params,
		driver.TimeoutParam(DefaultTimeout),
		driver.Param{Name: paramTable, Help: "name of the table, with its schema if necessary; default " + DefaultTable},
		driver.Param{Name: paramCreate, Type: driver.Bool, Help: "create the table if it is missing; default true"},
	)
	d.Guarantees = Guarantees(dialect)
	d.Findings = kit.Findings(rules[dialect])
	d.RoundTrips = driver.RoundTrips{Acquire: "1", Renew: "1", Release: "1"}
	d.Open = func(ctx context.Context, u driver.URL) (backend.Backend, error) {
		o := &Options{
			Table:    u.Text(paramTable),
			NoCreate: u.Text(paramCreate) == "false",
			Timeout:  u.Duration(driver.ParamTimeout),
			CloseDB:  true,
		}
		db, err := open(u)
		if err != nil {
			return nil, err
		}
		b, err := New(ctx, db, dialect, o)
		if err != nil {
			_ = db.Close()
		}
		return b, err
	}
	return d
}
