package peers

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"cirello.io/pglock"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lib/pq" // the driver that pglock requires

	"github.com/anylock/lock/bench"
)

const (
	pgConnections = 32 // of a client, like ours
	pgTable       = "pglock_bench"
	pgLease       = time.Second
)

// BareAdvisory is pg_advisory_lock on a pinned connection. It has no lease, so a frozen holder keeps its key as long as
// TCP keeps the connection. It has no token.
func BareAdvisory(url string) bench.Store {
	return bench.Store{
		Name: "advisory", Child: "advisory " + url, MaxLeases: pgConnections,
		About: about("github.com/jackc/pgx/v5", "bare pg_advisory_lock(hashtextextended(key)) on a pinned connection, no "+
			"lease, no token"),
		Open: func(ctx context.Context, _ time.Duration) (bench.Client, error) {
			cfg, err := pgxpool.ParseConfig(url)
			if err != nil {
				return nil, err
			}
			cfg.MaxConns = pgConnections
			pool, err := pgxpool.NewWithConfig(ctx, cfg)
			if err != nil {
				return nil, err
			}
			return advisory{pool}, nil
		},
	}
}

type advisory struct{ pool *pgxpool.Pool }

func (c advisory) Acquire(ctx context.Context, key string) (bench.Lease, error) {
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", key); err != nil {
		conn.Release()
		return nil, err
	}
	return unlock(conn, key), nil
}

func unlock(conn *pgxpool.Conn, key string) bench.Lease {
	return released(func(ctx context.Context) error {
		defer conn.Release()
		_, err := conn.Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", key)
		return err
	})
}

func (c advisory) Try(ctx context.Context, key string) (bench.Lease, error) {
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	var ok bool
	err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", key).Scan(&ok)
	switch {
	case err != nil:
		conn.Release()
		return nil, err
	case !ok:
		conn.Release()
		return nil, bench.ErrBusy
	}
	return unlock(conn, key), nil
}

func (c advisory) Close() error { c.pool.Close(); return nil }

// PGLock waits for a whole lease duration before it retries. So its lease is the shortest that its heartbeats sustain,
// whatever the scenario's TTL. With its default of 20 s, a contended key would be idle most of the time.
func PGLock(url string) bench.Store {
	return bench.Store{
		Name: "pglock", Child: "pglock " + url, MaxLeases: pgConnections,
		About: about("cirello.io/pglock", "a lease of 1 s with three heartbeats, because it asks again once in a lease"),
		Open: func(context.Context, time.Duration) (bench.Client, error) {
			db, err := sql.Open("postgres", url)
			if err != nil {
				return nil, err
			}
			db.SetMaxOpenConns(pgConnections)
			db.SetMaxIdleConns(pgConnections)
			c, err := pglock.New(db, pglock.WithLeaseDuration(pgLease), pglock.WithHeartbeatFrequency(pgLease/3),
				pglock.WithCustomTable(pgTable))
			if err != nil {
				return nil, errors.Join(err, db.Close())
			}
			if err := c.TryCreateTable(); err != nil {
				return nil, errors.Join(err, db.Close())
			}
			return pgClient{c, db}, nil
		},
	}
}

type pgClient struct {
	client *pglock.Client
	db     *sql.DB
}

func (c pgClient) acquire(ctx context.Context, key string, o ...pglock.LockOption) (bench.Lease, error) {
	l, err := c.client.AcquireContext(ctx, key, o...)
	for overdue(ctx, err) {
		l, err = c.client.AcquireContext(ctx, key, o...)
	}
	switch {
	case ctx.Err() != nil:
		return nil, errors.Join(ctx.Err(), err)
	case errors.Is(err, pglock.ErrNotAcquired):
		return nil, bench.ErrBusy
	case err != nil:
		return nil, err
	}
	return released(func(ctx context.Context) error {
		err := c.client.ReleaseContext(ctx, l)
		if !overdue(ctx, err) {
			return err
		}
		if err = c.client.ReleaseContext(ctx, l); errors.Is(err, pglock.ErrLockAlreadyReleased) {
			return nil
		}
		return err
	}), nil
}

// overdue reports whether pglock itself has aborted the request, because a reply may take no longer than a lease. The
// caller then retries.
func overdue(ctx context.Context, err error) bool {
	const canceled = "57014" // query_canceled
	var answer *pq.Error
	return ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.As(err, &answer) &&
		answer.Code == canceled)
}

func (c pgClient) Acquire(ctx context.Context, key string) (bench.Lease, error) {
	return c.acquire(ctx, key)
}

func (c pgClient) Try(ctx context.Context, key string) (bench.Lease, error) {
	return c.acquire(ctx, key, pglock.FailIfLocked())
}

func (c pgClient) Close() error { return c.db.Close() }

// postgresServer returns the version of the server.
func postgresServer(ctx context.Context, url string) (string, error) {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer c.Close(ctx)
	var version string
	err = c.QueryRow(ctx, "SHOW server_version").Scan(&version)
	return "Postgres " + version, err
}
