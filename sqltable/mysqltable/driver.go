// Package mysqltable keeps locks in a table of MySQL or MariaDB. It registers the scheme mysql with package lock, and
// uses go-sql-driver/mysql. See package sqltable. An application that has a *sql.DB uses sqltable.New instead.
package mysqltable

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/sqltable"
)

const (
	paramConns   = driver.ParamPrefix + "max_conns"
	defaultConns = 8
	mostConns    = 1000
	idleTime     = time.Minute
)

func init() {
	driver.Register(sqltable.Driver(sqltable.MySQL, driver.Driver{
		Name: "mysql-table",
		URLs: []driver.URLForm{{
			Scheme: "mysql", Port: "3306", Hosts: driver.OneHost, DefaultHost: "localhost", User: true,
			Path: driver.RequiredPath,
		}},
		Params: []driver.Param{{Name: paramConns, Type: driver.Number, Min: 1, Max: mostConns,
			Help: "most connections of this process, for all its leases and waiters; default 8"}},
		OtherParams: "go-sql-driver/mysql",
		Examples:    []string{"mysql://user:password@localhost:3306/database"},
	}, open))
}

// configOf returns the driver's configuration. The driver interpolates arguments into statements, which saves a round
// trip per statement. It escapes quotes by backslashes, which are part of a character in charsets such as gbk. So a
// charset of the URL or of the server does not apply to statements.
func configOf(u driver.URL) (*mysql.Config, error) {
	query := u.Query
	if query != "" {
		query = "?" + query
	}
	config, err := mysql.ParseDSN("tcp(localhost)/" + query)
	if err != nil { // the error may quote a password that was cut off
		return nil, fmt.Errorf("%w: %s url: go-sql-driver/mysql refuses a parameter", backend.ErrInvalid, u.Scheme)
	}
	config.User, config.Passwd, config.Addr = u.User, u.Password, u.Hosts[0]
	config.DBName = strings.TrimPrefix(u.Path, "/")
	config.InterpolateParams = true
	config.Logger = &mysql.NopLogger{} // the driver also returns the errors that it logs
	if config.Params == nil {
		config.Params = make(map[string]string)
	}
	config.Params["autocommit"] = "1"
	config.Params["character_set_client"] = "utf8mb4"
	return config, nil
}

func open(u driver.URL) (*sql.DB, error) {
	config, err := configOf(u)
	if err != nil {
		return nil, err
	}
	inner, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %s url: %w", backend.ErrInvalid, u.Scheme, err)
	}
	conns := cmp.Or(int(u.Number(paramConns)), defaultConns)
	db := sql.OpenDB(connector{inner, cmp.Or(u.Duration(driver.ParamTimeout), sqltable.DefaultTimeout)})
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(idleTime)
	return db, nil
}

// A connector limits the time of Connect, because package database/sql also connects with a context that never ends.
type connector struct {
	sqldriver.Connector
	timeout time.Duration
}

func (c connector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.Connector.Connect(ctx)
}
