package file

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Resume implements backend.Resumer.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (lease backend.Lease, err error) {
	err = b.leases.Call(ctx, r.ValidateFor(guarantees), func(ctx context.Context) error {
		g := kit.Grant{Sent: time.Now(), TTL: guarantees.Round(r.TTL)}
		if g.Token, err = b.renew(ctx, r, g.TTL); err != nil {
			return err
		}
		l, err := b.leases.Resume(r, g)
		if err == nil {
			lease = l // not a nil *kit.Life
		}
		return err
	})
	return lease, err
}
