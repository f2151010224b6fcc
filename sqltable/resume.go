package sqltable

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

var _ backend.Resumer = (*Backend)(nil)

// Resume implements [backend.Resumer]. It needs two statements: one renews the lease, and one reads the token.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (l backend.Lease, err error) {
	err = b.leases.Call(ctx, r.ValidateFor(b.guarantees), func(ctx context.Context) error {
		life, err := b.resume(ctx, r)
		if err == nil {
			l = life // not a nil *Life
		}
		return err
	})
	return l, err
}

func (b *Backend) resume(ctx context.Context, r backend.Request) (*kit.Life, error) {
	ttl := b.guarantees.Round(r.TTL)
	args := []any{ttl.Microseconds(), []byte(r.Key), []byte(r.Owner)}
	var sent time.Time
	var h backend.Holder
	unsure, err := b.request(ctx, func(ctx context.Context) (err error) {
		sent = time.Now()
		if _, err = b.exec(ctx, b.statements.renew[0](), args...); err != nil {
			return err
		}
		h, err = b.row(ctx, r.Key)
		return err
	})
	if err == nil {
		err = verdict(h, r.Owner, ttl-time.Since(sent))
	}
	if err != nil {
		return nil, err
	}
	return b.leases.Resume(r, kit.Grant{Token: h.Token, Sent: sent, TTL: ttl, Unsure: unsure})
}
