package sqltable

import (
	"cmp"
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

var _ backend.Resumer = (*Backend)(nil)

// Resume implements [backend.Resumer]. It needs two statements: one renews the lease, and one reads the token.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return kit.Call(ctx, b.leases, r.ValidateFor(b.Guarantees()), func(ctx context.Context) (backend.Lease, error) {
		ttl := b.Guarantees().Round(r.TTL)
		_, o, err := b.change(ctx, b.statements.renew[0](), ttl.Microseconds(), []byte(r.Key), []byte(r.Owner))
		if err != nil {
			return nil, err
		}
		h, err := b.holder(ctx, r.Key)
		if err = cmp.Or(err, renewalError(h, r.Owner, ttl-time.Since(o.sent))); err != nil {
			return nil, err
		}
		return b.leases.Resume(r, kit.Grant{Token: h.Token, Sent: o.sent, TTL: ttl, Unsure: o.unsure})
	})
}
