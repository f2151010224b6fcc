package sqltable

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/tablesql"
)

// rows returns the last owner of each key that s finds, with a TTL that is negative or zero if the lease has ended.
func (b *Backend) rows(ctx context.Context, s tablesql.Statement, args ...any) (map[string]backend.Holder, error) {
	found := make(map[string]backend.Holder)
	err := b.query(ctx, s, args, func(rows *sql.Rows) error {
		var key, owner []byte
		var remaining int64
		h := backend.Holder{Waiters: -1}
		err := rows.Scan(&key, &owner, &h.Token, &remaining)
		h.Owner, h.TTL = string(owner), time.Duration(remaining)*time.Microsecond
		found[string(key)] = h
		return err
	})
	return found, err
}

// row is rows for one key. Without a row, the result is the zero Holder.
func (b *Backend) row(ctx context.Context, key string) (backend.Holder, error) {
	rows, err := b.rows(ctx, b.statements.rows[0](), []byte(key))
	return rows[key], err
}

// holder returns who holds key. A free key is the zero Holder.
func (b *Backend) holder(ctx context.Context, key string) (h backend.Holder, err error) {
	_, err = b.request(ctx, func(ctx context.Context) (err error) {
		h, err = b.row(ctx, key)
		return err
	})
	if err != nil || h.TTL <= 0 {
		return backend.Holder{}, err
	}
	return h, nil
}

// lastOwner returns the holder of key or, if the lease has ended but was not released, its owner, unless the row is
// certain not to be locked.
func (b *Backend) lastOwner(ctx context.Context, key string) (h backend.Holder, ok bool) {
	const share = 4 // the time limit is Options.Timeout/share, on top of the previous request's
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout/share)
	defer cancel()
	_, err := b.request(ctx, func(ctx context.Context) (err error) {
		if h, err = b.row(ctx, key); err != nil || h.TTL > 0 || b.dialect == SQLite {
			return err
		}
		unlocked, err := b.rows(ctx, b.statements.unlocked, []byte(key))
		if len(unlocked) > 0 {
			h = backend.Holder{}
		}
		return err
	})
	h.TTL = max(h.TTL, 0)
	return h, err == nil && h.Held()
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
		keys, err := b.keys(ctx, b.statements.list, []byte(prefix))
		return slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, prefix) }), err
	})
}

// Break implements [backend.Breaker].
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		changed, unsure, err := b.change(ctx, b.statements.release, []byte(key), []byte(owner))
		if err == nil && changed == 0 && !unsure { // if unsure, the first try may have ended the lease
			return backend.ErrLost
		}
		return err
	})
}
