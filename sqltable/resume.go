package sqltable

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

var _ backend.Resumer = (*Backend)(nil)

// Resume implements [backend.Resumer]. It needs two statements: one renews the lease, and one reads the token.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return kit.Call(ctx, b.leases, r.ValidateFor(b.guarantees), func(ctx context.Context) (backend.Lease, error) {
		return b.resume(ctx, r)
	})
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
		err = renewalError(h, r.Owner, ttl-time.Since(sent))
	}
	if err != nil {
		return nil, err
	}
	return b.leases.Resume(r, kit.Grant{Token: h.Token, Sent: sent, TTL: ttl, Unsure: unsure})
}
