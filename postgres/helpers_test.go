package postgres

import (
	"context"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/internal/storetest"
)

// soon bounds what must happen at once on a machine that may be busy.
const soon = storetest.Soon

const closed = storetest.NoServer

type outcome = storetest.Outcome

// What all stores' tests do.
var (
	opened       = storetest.Opened[*Backend]
	req          = storetest.Try
	waiting      = storetest.Wait
	acquire      = storetest.Acquire
	release      = storetest.Release
	until        = storetest.Until
	startAcquire = storetest.Start
	queueUp      = storetest.QueueUp
	queued       = storetest.Queued
	granted      = storetest.Granted
	lost         = storetest.Lost
)

// dialed is a plain connection, to look behind the backend.
func dialed(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// query reads one value.
func query[T any](t testing.TB, c *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := c.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// advisory selects the locks of the database that is asked.
const advisory = `locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// locks counts the advisory locks of the database, held and waited for.
func locks(t testing.TB, c *pgx.Conn) int {
	t.Helper()
	return query[int](t, c, "SELECT count(*) FROM pg_locks WHERE "+advisory)
}

// isWatched reports whether s is being read from.
func (s *session) isWatched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watched
}

// wire is the connection beneath its encryption.
func (s *session) wire() net.Conn {
	c := s.conn.Conn()
	if enc, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = enc.NetConn()
	}
	return c
}

// halves are how pg_locks shows a lock on one bigint.
func (h hash) halves() (classid, objid uint32) { return uint32(uint64(h) >> 32), uint32(h) }

// leases counts what is held or asked for.
func (p *pool) leases() (n int) {
	for s := range p.all {
		if s.held != nil && !s.held.query {
			n++
		}
	}
	return n
}
