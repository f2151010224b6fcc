package sqltable

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/tablesql"
)

// maxReconnects is how often a request is repeated because its connection broke or the server was unreachable. Each
// idle connection of the pool adds one repetition, because it may be broken, too.
const maxReconnects = 3

// An outcome is what is known of a request.
type outcome struct {
	sent   time.Time // before the last try was sent: a repeated statement never shortens a lease
	unsure bool      // a try got no reply, and may still be executed
	class  class     // of the last try's error
}

// request runs do, and repeats it after some errors, for up to Options.Timeout. The statements of do must be safe to
// repeat.
func (b *Backend) request(ctx context.Context, do func(ctx context.Context) error) (o outcome, err error) {
	limited, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	reconnects := maxReconnects + b.db.Stats().Idle
	repeat := kit.Repeat{
		Timeout: b.options.Timeout,
		Pause:   kit.Pause{Min: 2 * time.Millisecond, Max: 100 * time.Millisecond},
		Classify: func(err error) (kit.Outcome, bool) {
			switch o.class = classify(err); o.class {
			case gone, demoted:
				reconnects--
				return kit.Unknown, reconnects >= 0
			case unknown:
				return kit.Unknown, false
			default:
				return kit.Answered, o.class == conflict
			}
		},
	}
	o.unsure, err = repeat.Do(limited, func(bool) error {
		o.sent = time.Now()
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
	return o, b.translate(ctx, err)
}

// closeIdle closes the connection that was used last. A server that has become read-only keeps its connections open.
// The pool would use them forever, although a new connection may reach the new primary.
func (b *Backend) closeIdle(ctx context.Context) {
	if c, err := b.db.Conn(ctx); err == nil {
		_ = c.Raw(func(any) error { return driver.ErrBadConn }) // so that package database/sql closes it
	}
}

// change runs a statement that writes. It returns how many rows the last try has changed.
func (b *Backend) change(ctx context.Context, s tablesql.Statement, args ...any) (rows int64, o outcome, err error) {
	o, err = b.request(ctx, func(ctx context.Context) (err error) {
		rows, _, err = b.exec(ctx, s, args...)
		return err
	})
	return rows, o, err
}

// exec runs a statement once. It returns how many rows the statement has changed, and what MySQL's last_insert_id set.
func (b *Backend) exec(ctx context.Context, s tablesql.Statement, args ...any) (changed, id int64, err error) {
	result, err := b.db.ExecContext(ctx, s.Text, s.Args(args...)...)
	if err != nil {
		return 0, 0, err
	}
	if changed, err = result.RowsAffected(); changed > 0 { // otherwise a server may return the id of an earlier statement
		id, _ = result.LastInsertId() // other drivers return an error
	}
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

// rows returns the last owner of each key that s finds, with a TTL that is negative or zero if the lease has ended.
func (b *Backend) rows(ctx context.Context, s tablesql.Statement, args ...any) (map[string]backend.Holder, error) {
	return query(ctx, b, s, args, func(rows *sql.Rows) (string, backend.Holder, error) {
		var key, owner []byte
		var remaining int64
		h := backend.Holder{Waiters: -1}
		err := rows.Scan(&key, &owner, &h.Token, &remaining)
		h.Owner, h.TTL = string(owner), time.Duration(remaining)*time.Microsecond
		return string(key), h, err
	})
}

// holder returns the holder of key, or the zero Holder if the key is free.
func (b *Backend) holder(ctx context.Context, key string) (h backend.Holder, err error) {
	rows, err := b.rows(ctx, b.statements.rows[0](), []byte(key))
	if rows[key].TTL > 0 {
		h = rows[key]
	}
	return h, err
}
