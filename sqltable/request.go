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
	reconnects := maxReconnects + b.db.Stats().Idle
	repeat := kit.Repeat{
		Timeout: b.options.Timeout,
		Pause:   kit.Pause{Min: 2 * time.Millisecond, Max: 100 * time.Millisecond},
		Classify: func(err error) (kit.Outcome, bool) {
			switch classify(err) {
			case conflict:
				return kit.Answered, true
			case noTable, impossible, refused:
				return kit.Answered, false
			case gone, demoted:
				reconnects--
				return kit.Unknown, reconnects >= 0
			}
			return kit.Unknown, false
		},
	}
	unsure, err = repeat.Do(limited, func(bool) error {
		err := do(limited)
		if err != nil && classify(err) == noTable && !b.options.NoCreate { // at opening, or the data was lost
			if _, err = b.db.ExecContext(limited, b.statements.create); err == nil {
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
	if c, err := b.db.Conn(ctx); err == nil {
		_ = c.Raw(func(any) error { return driver.ErrBadConn }) // so that package database/sql closes it
	}
}

// A change is the result of a statement that writes.
type change struct {
	sent   time.Time // when the last try was sent
	rows   int64     // how many rows the last try has changed
	unsure bool      // a try got no reply, and may still be executed
}

// change runs a statement that writes.
func (b *Backend) change(ctx context.Context, s tablesql.Statement, args ...any) (c change, err error) {
	c.unsure, err = b.request(ctx, func(ctx context.Context) (err error) {
		c.sent = time.Now()
		c.rows, _, err = b.exec(ctx, s, args...)
		return err
	})
	return c, err
}

// exec runs a statement once. It returns how many rows the statement has changed, and what MySQL's last_insert_id set.
func (b *Backend) exec(ctx context.Context, s tablesql.Statement, args ...any) (changed, id int64, err error) {
	result, err := b.db.ExecContext(ctx, s.Text, s.Args(args...)...)
	if err != nil {
		return 0, 0, err
	}
	id, _ = result.LastInsertId() // other drivers return an error
	changed, err = result.RowsAffected()
	return changed, id, err
}

// query runs a statement that reads. scan returns a name and a value for each of its rows.
func query[V any](
	ctx context.Context, b *Backend, s tablesql.Statement, args []any, scan func(*sql.Rows) (string, V, error),
) (values map[string]V, err error) {
	_, err = b.request(ctx, func(ctx context.Context) error {
		values = make(map[string]V)
		rows, err := b.db.QueryContext(ctx, s.Text, s.Args(args...)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			name, value, err := scan(rows)
			if err != nil {
				return err
			}
			values[name] = value
		}
		return rows.Err()
	})
	return values, err
}
