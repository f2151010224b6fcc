package memory

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Resume implements backend.Resumer, for all clients of one Store. No lease outlives the process.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (lease backend.Lease, err error) {
	err = b.leases.Call(ctx, r.ValidateFor(guarantees), func(context.Context) error {
		g := kit.Grant{Sent: time.Now(), TTL: guarantees.Round(r.TTL)}
		var held bool
		if g.Token, held = b.store.renew(r.Key, r.Owner, r.Shared, g.TTL); !held {
			return backend.ErrLost
		}
		l, err := b.leases.Resume(r, g)
		if err == nil {
			lease = l // never a nil *kit.Life: lease would not be nil then
		}
		return err
	})
	return lease, err
}
