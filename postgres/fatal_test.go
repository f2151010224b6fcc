package postgres

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// An application's own error handler does not hide that the server has ended a session.
func TestOwnErrorHandler(t *testing.T) {
	t.Parallel()
	url := gentleURL(t)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.OnPgError = func(*pgconn.PgConn, *pgconn.PgError) bool { return true }
	b, err := New(context.Background(), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	unwatch(b)
	c := dialed(t, url)
	for _, what := range []string{"renew", "release"} {
		key := backend.NewOwner()
		l := acquire(t, b, req(key, time.Minute))
		endSession(t, c, key)
		if what == "renew" {
			err = l.Renew(context.Background(), time.Minute)
		} else {
			err = l.Release(context.Background())
		}
		if !errors.Is(err, backend.ErrLost) {
			t.Errorf("%s: %v, want ErrLost", what, err)
		}
	}
}

// An application's own context watcher, which sends a cancel request and waits for the reply, does not block a renewal
// on a watched connection.
func TestOwnContextWatcher(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig(gentleURL(t))
	if err != nil {
		t.Fatal(err)
	}
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: time.Minute}
	}
	b, err := New(context.Background(), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l := acquire(t, b, req(backend.NewOwner(), time.Minute))
	until(t, soon, "the connection is watched", l.(*kit.Life).Data.(*checkout).s.isWatched)
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := l.Renew(ctx, time.Minute); err != nil {
		t.Error(err)
	}
}

// unwatch stops the watches of idle connections, so that only the next request detects that a connection has ended.
func unwatch(b *Backend) {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	b.pool.watchAfter = time.Hour
	for s := range b.pool.all {
		s.watchTimer.Stop()
	}
}

// endSession terminates the session that holds key.
func endSession(t *testing.T, c *pgx.Conn, key string) {
	t.Helper()
	classid, objid := hashOf(key).halves()
	_ = query[bool](t, c, `SELECT bool_and(pg_terminate_backend(pid, 5000)) FROM pg_locks
		WHERE `+advisory+` AND granted AND classid = $1::oid AND objid = $2::oid`, classid, objid)
}

// If idle sessions have ended, however many, the next call still succeeds.
func TestSessionsEndedAtRest(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := dialed(t, s.PostgresURL())
	for mode, params := range variants {
		b := opened(t, s.PostgresURL()+params)
		unwatch(b)
		for _, what := range []string{"acquire", "inspect"} {
			var leases []backend.Lease
			for range 8 {
				leases = append(leases, acquire(t, b, req(backend.NewOwner(), time.Minute)))
			}
			for _, l := range leases {
				release(t, l)
			}
			_ = query[bool](t, c, `SELECT bool_and(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
				WHERE application_name = 'anylock' AND datname = current_database()`)
			if what == "acquire" {
				release(t, acquire(t, b, req("k", time.Minute)))
			} else if _, err := b.Inspect(context.Background(), "k"); err != nil {
				t.Errorf("%s: inspect: %v", mode, err)
			}
		}
	}
}

// If a reply arrives just before the deadline, the deadline does not affect the next request on the connection.
func TestAnswerAtTheLimit(t *testing.T) {
	t.Parallel()
	b := opened(t, gentleURL(t))
	l := acquire(t, b, req(backend.NewOwner(), time.Minute))
	s := l.(*kit.Life).Data.(*checkout).s
	if err := s.request(context.Background(), func() error {
		s.limit(context.Background(), time.Nanosecond)
		until(t, soon, "the request is given up", func() bool {
			_, err := s.wire().Read(make([]byte, 1))
			return errors.Is(err, os.ErrDeadlineExceeded)
		})
		return nil // as if the reply had been read before the deadline
	}); err != nil {
		t.Fatal(err)
	}
	release(t, l)
}
