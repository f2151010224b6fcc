package memory

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Resume implements backend.Resumer, for all clients of one Store. No lease outlives the process.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return kit.Call(ctx, b.leases, r.ValidateFor(guarantees), func(context.Context) (backend.Lease, error) {
		g := kit.Grant{Sent: time.Now(), TTL: guarantees.Round(r.TTL)}
		var held bool
		if g.Token, held = b.store.renew(r.Key, r.Owner, r.Shared, g.TTL); !held {
			return nil, backend.ErrLost
		}
		return b.leases.Resume(r, g)
	})
}
