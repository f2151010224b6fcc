package sqltable

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/tablesql"
)

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

// lastOwner returns the holder of key or, if the lease has ended but was not released, its owner, unless the row is
// certain not to be locked.
func (b *Backend) lastOwner(ctx context.Context, key string) (h backend.Holder, ok bool) {
	const share = 4 // the time limit is Options.Timeout/share, on top of the previous request's
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout/share)
	defer cancel()
	rows, err := b.rows(ctx, b.statements.rows[0](), []byte(key))
	h = rows[key]
	var unlocked map[string]backend.Holder
	if err == nil && h.TTL <= 0 && b.dialect != SQLite {
		unlocked, err = b.rows(ctx, b.statements.unlocked, []byte(key))
	}
	h.TTL = max(h.TTL, 0)
	return h, err == nil && h.Held() && len(unlocked) == 0
}

// Inspect implements [backend.Backend].
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	return kit.Call(ctx, b.leases, backend.ValidateKey(key), func(ctx context.Context) (backend.Holder, error) {
		return b.holder(ctx, key)
	})
}

// List implements [backend.Lister].
func (b *Backend) List(ctx context.Context, prefix string) ([]string, error) {
	return kit.Call(ctx, b.leases, nil, func(ctx context.Context) ([]string, error) {
		rows, err := b.rows(ctx, b.statements.list, []byte(prefix))
		maps.DeleteFunc(rows, func(key string, _ backend.Holder) bool { return !strings.HasPrefix(key, prefix) })
		return slices.Collect(maps.Keys(rows)), err
	})
}

// Break implements [backend.Breaker].
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		rows, o, err := b.change(ctx, b.statements.release, []byte(key), []byte(owner))
		if err == nil && rows == 0 && !o.unsure { // if unsure, the first try may have ended the lease
			return backend.ErrLost
		}
		return err
	})
}
