package pgtable

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/sqltable"
)

const soon = storetest.Soon

// Helpers that the tests of all stores share.
var (
	opened  = storetest.Opened[*sqltable.Backend]
	openURL = storetest.OpenURL[*sqltable.Backend]
	req     = storetest.Try
	waiting = storetest.Wait
	acquire = storetest.Acquire
	release = storetest.Release
)

func TestMain(m *testing.M) {
	process.Main(func(ctx context.Context, url string) (backend.Backend, error) { return openURL(ctx, url) })
	storetest.VerifyTestMain(servers.Sharing(m))
}

// tableURL returns the URL of a table in the server's database.
func tableURL(s *servers.Server) string {
	const scheme = "postgres"
	return scheme + "+table" + s.PostgresURL()[len(scheme):]
}

// patient is a parameter for URLs: a request has more time, because the machine may be busy with other tests.
const patient = "&timeout=10s"

// openDB opens the server's database as the package does.
func openDB(s *servers.Server, conns int) (*sql.DB, error) {
	config, err := pgx.ParseConfig(s.PostgresURL())
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(newConnector(&config.Config, soon, conns))
	db.SetMaxIdleConns(conns)
	db.SetMaxOpenConns(conns)
	return db, nil
}
