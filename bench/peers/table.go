package peers

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/bench"
)

const (
	tableConnections = 64 // of a client, like ours
	tablePause       = 50 * time.Millisecond
)

// tableURL returns the URL of our table in the Postgres of url.
func tableURL(url string) string {
	const scheme = "postgres"
	return scheme + "+table" + url[len(scheme):] + "&lock_max_conns=64&timeout=10s"
}

// A tableLock is SQL that keeps a lock in a row. All statements have a name $1 and an owner $2.
type tableLock struct {
	create  string
	acquire []string // in one transaction if there are several; the last one changes a row if it grants the name
	renew   string
	release string
}

// upsert is the minimum of a lease: it has no token, and does not report the loss to a holder.
var upsert = tableLock{
	create: `CREATE TABLE IF NOT EXISTS bare_upsert (name text PRIMARY KEY, owner text, expires timestamptz)
		WITH (fillfactor = 50)`,
	acquire: []string{`INSERT INTO bare_upsert AS b VALUES ($1, $2, now() + interval '10 s')
		ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires = excluded.expires WHERE b.expires < now()`},
	renew:   `UPDATE bare_upsert SET expires = now() + interval '10 s' WHERE name = $1 AND owner = $2`,
	release: `UPDATE bare_upsert SET expires = '-infinity' WHERE name = $1 AND owner = $2`,
}

// BareUpsert inserts a row, or updates it if it has expired.
func BareUpsert(url string) bench.Store {
	return upsert.store(url, "upsert", "INSERT … ON CONFLICT DO UPDATE … WHERE it has expired, no token")
}

// riverLeader is River's way to elect a leader, with a name for each lock. It deletes the row at the end.
var riverLeader = tableLock{
	create: `CREATE UNLOGGED TABLE IF NOT EXISTS river_leader (name text PRIMARY KEY, leader_id text NOT NULL,
		elected_at timestamptz NOT NULL, expires_at timestamptz NOT NULL)`,
	acquire: []string{
		`DELETE FROM river_leader WHERE name = $1 AND expires_at < now() AND $2 <> ''`,
		`INSERT INTO river_leader (name, leader_id, elected_at, expires_at)
			VALUES ($1, $2, now(), now() + interval '10 s') ON CONFLICT (name) DO NOTHING`,
	},
	renew:   `UPDATE river_leader SET expires_at = now() + interval '10 s' WHERE name = $1 AND leader_id = $2`,
	release: `DELETE FROM river_leader WHERE name = $1 AND leader_id = $2`,
}

// RiverLeader is the SQL of River's elector.
func RiverLeader(url string) bench.Store {
	return riverLeader.store(url, "river-leader",
		"the SQL of River's leader election, by hand: DELETE of what has expired and INSERT in a transaction, an "+
			"unlogged table")
}

func (l tableLock) store(url, name, settings string) bench.Store {
	return bench.Store{
		Name: name, Child: name + " " + url,
		About: about("github.com/jackc/pgx/v5", settings),
		Open: func(ctx context.Context, ttl time.Duration) (bench.Client, error) {
			cfg, err := pgxpool.ParseConfig(url)
			if err != nil {
				return nil, err
			}
			cfg.MaxConns = tableConnections
			pool, err := pgxpool.NewWithConfig(ctx, cfg)
			if err != nil {
				return nil, err
			}
			if _, err := pool.Exec(ctx, l.create); err != nil {
				pool.Close()
				return nil, err
			}
			return tableClient{l, pool, ttl}, nil
		},
	}
}

type tableClient struct {
	tableLock
	pool *pgxpool.Pool
	ttl  time.Duration
}

// Acquire polls, which is usual with such SQL.
func (c tableClient) Acquire(ctx context.Context, key string) (bench.Lease, error) {
	for {
		l, err := c.Try(ctx, key)
		if !errors.Is(err, bench.ErrBusy) {
			return l, err
		}
		select {
		case <-time.After(tablePause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c tableClient) Try(ctx context.Context, key string) (bench.Lease, error) {
	owner := backend.NewOwner()
	granted, err := c.attempt(ctx, key, owner)
	switch {
	case err != nil:
		return nil, err
	case !granted:
		return nil, bench.ErrBusy
	}
	stop := renewing(c.ttl, func(ctx context.Context) { _, _ = c.pool.Exec(ctx, c.renew, key, owner) })
	return released(func(ctx context.Context) error {
		stop()
		_, err := c.pool.Exec(ctx, c.release, key, owner)
		return err
	}), nil
}

func (c tableClient) attempt(ctx context.Context, key, owner string) (granted bool, err error) {
	if len(c.acquire) == 1 {
		tag, err := c.pool.Exec(ctx, c.acquire[0], key, owner)
		return tag.RowsAffected() > 0, err
	}
	tx, err := c.pool.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // after a commit there is nothing to roll back
	for _, statement := range c.acquire {
		tag, err := tx.Exec(ctx, statement, key, owner)
		if err != nil {
			return false, err
		}
		granted = tag.RowsAffected() > 0
	}
	return granted, tx.Commit(ctx)
}

func (c tableClient) Close() error { c.pool.Close(); return nil }
