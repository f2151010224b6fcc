package sqltable

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/tablesql"
)

// maxReconnects is how often a request is repeated because its connection broke or the server was unreachable. Each
// idle connection of the pool adds one repetition, because it may be broken, too.
const maxReconnects = 3

// request runs do, and repeats it after some errors, for up to Options.Timeout. The statements of do must be safe to
// repeat. unsure reports that the database may still execute a statement that got no reply.
func (b *Backend) request(ctx context.Context, do func(ctx context.Context) error) (unsure bool, err error) {
	limited, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	reconnects, created := maxReconnects+b.db.Stats().Idle, false
	repeat := kit.Repeat{
		Timeout: b.options.Timeout,
		Pause:   kit.Pause{Min: 2 * time.Millisecond, Max: 100 * time.Millisecond},
		Classify: func(err error) (kit.Outcome, bool) {
			o, passing := outcome(err)
			if o == kit.Unknown {
				reconnects--
				passing = passing && reconnects >= 0
			}
			return o, passing
		},
	}
	unsure, err = repeat.Do(limited, func(bool) error {
		err := do(limited)
		if err != nil && classify(err) == noTable && !b.options.NoCreate && !created {
			created = true // if the database has lost its data, it has lost the table
			if err = b.create(limited); err == nil {
				err = do(limited)
			}
		}
		if err != nil && classify(err) == demoted {
			b.closeIdle(limited)
		}
		return err
	})
	return unsure, b.translate(ctx, err)
}

// closeIdle closes the connection that was used last. A server that has become read-only keeps its connections open.
// The pool would use them forever, although a new connection may reach the new primary.
func (b *Backend) closeIdle(ctx context.Context) {
	c, err := b.db.Conn(ctx)
	if err != nil {
		return
	}
	_ = c.Raw(func(any) error { return driver.ErrBadConn }) // so that package database/sql closes it
	_ = c.Close()
}

// change runs a statement as a request of its own. It returns how many rows the last try has changed.
func (b *Backend) change(
	ctx context.Context, s tablesql.Statement, args ...any,
) (changed int64, unsure bool, err error) {
	unsure, err = b.request(ctx, func(ctx context.Context) (err error) {
		changed, err = b.exec(ctx, s, args...)
		return err
	})
	return changed, unsure, err
}

// exec runs a statement and returns how many rows it has changed.
func (b *Backend) exec(ctx context.Context, s tablesql.Statement, args ...any) (changed int64, err error) {
	result, err := b.db.ExecContext(ctx, s.Text, s.Args(args...)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// query runs a statement and calls scan for each of its rows.
func (b *Backend) query(ctx context.Context, s tablesql.Statement, args []any, scan func(*sql.Rows) error) error {
	rows, err := b.db.QueryContext(ctx, s.Text, s.Args(args...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// keys runs a statement as a request of its own, and returns the keys in its rows.
func (b *Backend) keys(ctx context.Context, s tablesql.Statement, arg any) (list []string, err error) {
	_, err = b.request(ctx, func(ctx context.Context) error {
		list = nil
		return b.query(ctx, s, []any{arg}, func(rows *sql.Rows) error {
			var key []byte
			err := rows.Scan(&key)
			list = append(list, string(key))
			return err
		})
	})
	return list, err
}
