package postgres

import (
	"context"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/anylock/lock/internal/storetest"
)

// soon limits the time for events that must happen at once, on a machine that may be busy.
const soon = storetest.Soon

const closed = storetest.NoServer

type outcome = storetest.Outcome

// Helpers that the tests of all stores share.
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

// dialed opens a plain connection, which bypasses the Backend.
func dialed(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// query runs sql and returns the single value of its result.
func query[T any](t testing.TB, c *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := c.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// advisory is the SQL condition that selects the advisory locks of the connection's database.
const advisory = `locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// locks counts the advisory locks of the database, both held and waited for.
func locks(t testing.TB, c *pgx.Conn) int {
	t.Helper()
	return query[int](t, c, "SELECT count(*) FROM pg_locks WHERE "+advisory)
}

// isWatched reports whether a watcher reads from s.
func (s *session) isWatched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watched
}

// wire returns the network connection below TLS.
func (s *session) wire() net.Conn {
	c := s.conn.Conn()
	if enc, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = enc.NetConn()
	}
	return c
}

// halves returns the two columns with which pg_locks shows a lock on one bigint.
func (h hash) halves() (classid, objid uint32) { return uint32(uint64(h) >> 32), uint32(h) }

// leases counts the sessions that carry a lease or an attempt. The caller must hold p.mu.
func (p *pool) leases() (n int) {
	for s := range p.all {
		if s.held != nil && !s.held.query {
			n++
		}
	}
	return n
}
