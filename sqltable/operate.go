package sqltable

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// row returns the last owner of key, with a TTL that is negative or zero if the lease has ended.
func (b *Backend) row(ctx context.Context, key string) (h backend.Holder, found bool, err error) {
	s := b.statements.look
	var owner []byte
	var left int64
	err = b.db.QueryRowContext(ctx, s.Text, []byte(key)).Scan(&owner, &h.Token, &left)
	if errors.Is(err, sql.ErrNoRows) {
		return backend.Holder{}, false, nil
	}
	h.Owner, h.TTL, h.Waiters = string(owner), time.Duration(left)*time.Microsecond, -1
	return h, err == nil, err
}

// holder returns who holds key. A free key is the zero Holder.
func (b *Backend) holder(ctx context.Context, key string) (h backend.Holder, err error) {
	_, err = b.request(ctx, func(ctx context.Context) (err error) {
		h, _, err = b.row(ctx, key)
		return err
	})
	if err != nil || h.TTL <= 0 {
		return backend.Holder{}, err
	}
	return h, nil
}

// lastOwner returns the owner of a row whose lease has ended but was not released.
func (b *Backend) lastOwner(ctx context.Context, key string) (h backend.Holder, ok bool) {
	const share = 4 // the time limit is Options.Timeout/share, on top of the previous request's
	ctx, cancel := context.WithTimeout(ctx, b.options.Timeout/share)
	defer cancel()
	_, err := b.request(ctx, func(ctx context.Context) (err error) {
		h, ok, err = b.row(ctx, key)
		return err
	})
	h.TTL = max(h.TTL, 0)
	return h, ok && err == nil && h.Held()
}

// Inspect implements [backend.Backend].
func (b *Backend) Inspect(ctx context.Context, key string) (h backend.Holder, err error) {
	err = b.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) (err error) {
		h, err = b.holder(ctx, key)
		return err
	})
	return h, err
}

// List implements [backend.Lister].
func (b *Backend) List(ctx context.Context, prefix string) (keys []string, err error) {
	err = b.leases.Call(ctx, nil, func(ctx context.Context) error {
		var all []string
		_, err := b.request(ctx, func(ctx context.Context) (err error) {
			all, err = b.keys(ctx, b.statements.list, []byte(prefix))
			return err
		})
		for _, key := range all {
			if strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
		return err
	})
	return keys, err
}

// Break implements [backend.Breaker].
func (b *Backend) Break(ctx context.Context, key, owner string) error {
	return b.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		var changed int64
		unsure, err := b.request(ctx, func(ctx context.Context) (err error) {
			changed, err = b.exec(ctx, b.statements.release, []byte(key), []byte(owner))
			return err
		})
		if err == nil && changed == 0 && !unsure { // if unsure, the first try may have ended the lease
			return backend.ErrLost
		}
		return err
	})
}
