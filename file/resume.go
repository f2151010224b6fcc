package file

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Resume implements backend.Resumer.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return kit.Call(ctx, b.leases, r.ValidateFor(guarantees), func(ctx context.Context) (backend.Lease, error) {
		g := kit.Grant{Sent: time.Now(), TTL: guarantees.Round(r.TTL)}
		var err error
		if g.Token, err = b.renew(ctx, r, g.TTL); err != nil {
			return nil, err
		}
		return b.leases.Resume(r, g)
	})
}
