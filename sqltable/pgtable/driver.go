package pgtable

import (
	"cmp"
	"database/sql"
	"time"

	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/pgurl"
	"github.com/anylock/lock/sqltable"
)

const (
	paramConns   = driver.ParamPrefix + "max_conns"
	defaultConns = 8
	mostConns    = 1000
	idleTime     = time.Minute
)

func init() {
	driver.Register(sqltable.Driver(sqltable.Postgres, driver.Driver{
		Name: "postgres-table",
		URLs: []driver.URLForm{{Scheme: "postgres+table", Hosts: driver.ManyHosts, User: true, Path: driver.OptionalPath}},
		Params: []driver.Param{{Name: paramConns, Type: driver.Number, Min: 1, Max: mostConns,
			Help: "most connections of this process, for all its leases and waiters; default 8"}},
		OtherParams: "pgx",
		Examples: []string{
			"postgres+table://user:password@localhost:5432/database",
			"postgres+table://user:password@h1:5432,h2:5432/database?target_session_attrs=primary",
			"postgres+table://user:password@pgbouncer:6432/database",
		},
	}, open))
}

func open(u driver.URL) (*sql.DB, error) {
	config, err := pgurl.Config(u)
	if err != nil {
		return nil, err
	}
	conns := cmp.Or(int(u.Number(paramConns)), defaultConns)
	db := sql.OpenDB(newConnector(&config.Config, cmp.Or(u.Duration(driver.ParamTimeout), sqltable.DefaultTimeout), conns))
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(idleTime)
	return db, nil
}
