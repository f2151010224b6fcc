// Package sqlitetable keeps locks in a table of an SQLite file, for the processes of one host. It registers the scheme
// sqlite with package lock, and uses modernc.org/sqlite. See package sqltable. An application that has a *sql.DB uses
// sqltable.New instead.
package sqlitetable

import (
	"database/sql"
	"net/url"

	_ "modernc.org/sqlite" // the database, in pure Go

	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/sqltable"
)

func init() {
	driver.Register(sqltable.Driver(sqltable.SQLite, driver.Driver{
		Name:     "sqlite-table",
		URLs:     []driver.URLForm{{Scheme: "sqlite", Path: driver.RequiredPath}},
		Examples: []string{"sqlite:///var/lib/app/data.db"},
	}, open))
}

// conns is the most connections of a process: one statement writes at a time, and others read.
const conns = 4

// open sets a short busy_timeout, because a wait inside SQLite ignores the end of a context. Package sqltable retries
// the statement.
func open(u driver.URL) (*sql.DB, error) {
	file := url.URL{Scheme: "file", Path: u.Path, RawQuery: url.Values{
		"_pragma": {"busy_timeout(100)", "journal_mode(WAL)", "synchronous(NORMAL)"},
	}.Encode()}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}
