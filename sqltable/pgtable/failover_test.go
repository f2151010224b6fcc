package pgtable

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/sqltable"
)

// After a failover, a URL with both hosts reaches the new primary. Leases that the standby had received are live there.
func TestFailover(t *testing.T) {
	storetest.Long(t, "two servers")
	t.Parallel()
	primary, standby := servers.PostgresPair(t)
	url := strings.Replace(tableURL(primary), primary.Addr, standby.Addr+","+primary.Addr, 1) +
		"&target_session_attrs=primary" + patient
	a, b := opened(t, url), opened(t, url)
	const ttl = 10 * time.Minute
	held := acquire(t, a, req("k", ttl))
	replica := dialed(t, standby.PostgresURL())
	storetest.Until(t, storetest.Soon, "the standby has the lease", func() bool {
		var found bool
		err := replica.QueryRow(t.Context(), `SELECT true FROM anylock WHERE name='k' AND expires>0`).Scan(&found)
		return err == nil && found
	})
	primary.Kill()
	exec(t, replica, `SELECT pg_promote()`)

	if err := held.Renew(t.Context(), ttl); err != nil {
		t.Errorf("renew on the new primary: %v", err)
	}
	if _, err := b.Acquire(t.Context(), req("k", ttl)); !errors.Is(err, backend.ErrHeld) {
		t.Errorf("a held key after a failover: %v, want ErrHeld", err)
	}
	release(t, held)
	next := acquire(t, b, req("k", ttl))
	if next.Token() <= held.Token() {
		t.Errorf("token %d after a failover, %d before", next.Token(), held.Token())
	}
	release(t, next)
}

// A server that becomes read-only may keep its connections open. They are replaced, because a new connection may reach
// another server.
func TestReadOnlyConnections(t *testing.T) {
	t.Parallel()
	s := together.Get(t)
	const table, conns = "demoted", 3
	release(t, acquire(t, opened(t, tableURL(s)+"&lock_table="+table), req("k", time.Minute))) // creates the table
	c := dialed(t, s.PostgresURL())
	exec(t, c, `DO $$ BEGIN CREATE ROLE demoted LOGIN SUPERUSER; EXCEPTION WHEN duplicate_object THEN END $$`,
		`ALTER ROLE demoted SET default_transaction_read_only = on`)
	config, err := pgx.ParseConfig(strings.Replace(s.PostgresURL(), "postgres@", "demoted@", 1))
	if err != nil {
		t.Fatal(err)
	}
	const timeout = 10 * time.Second
	db := sql.OpenDB(newConnector(&config.Config, timeout, conns))
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	defer db.Close()
	var all []*sql.Conn
	for range conns {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, conn)
	}
	for _, conn := range all { // back to the pool
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, c, `ALTER ROLE demoted RESET default_transaction_read_only`) // for new connections
	b, err := sqltable.New(t.Context(), db, sqltable.Postgres, &sqltable.Options{Table: table, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, b, req("k", time.Minute)))
	exec(t, c, `ALTER ROLE demoted SET default_transaction_read_only = on`)
	db.SetMaxIdleConns(0) // new connections from now on
	storetest.Finds(t, b, "read-only")
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// A standby is not used, because its rows may be old and it refuses writes.
func TestStandbyIsRefused(t *testing.T) {
	storetest.Long(t, "two servers")
	t.Parallel()
	primary, standby := servers.PostgresPair(t)
	release(t, acquire(t, opened(t, tableURL(primary)+patient), req("k", time.Minute)))
	for what, url := range map[string]string{
		"without target_session_attrs": tableURL(standby),
		"with target_session_attrs":    tableURL(standby) + "&target_session_attrs=primary",
	} {
		if b, err := openURL(t.Context(), url); err == nil {
			_, err = b.Acquire(t.Context(), req("k", time.Minute))
			if !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("%s: %v, want ErrUnavailable", what, err)
			}
			_ = b.Close()
		} else if !errors.Is(err, backend.ErrUnavailable) && !errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("open %s: %v, want ErrUnavailable", what, err)
		}
	}
}
