package memory

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Resume implements backend.Resumer, for clients of one Store. No lease outlives the process.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := b.leases.Enter(ctx, r.Validate()); err != nil {
		return nil, err
	}
	defer b.leases.Leave()
	g := kit.Grant{Sent: time.Now(), TTL: guarantees.Round(r.TTL)}
	token, held := b.store.resume(r.Key, r.Owner, g.TTL)
	if !held {
		return nil, backend.ErrLost
	}
	g.Token = token
	l, err := b.leases.Resume(r, g)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// resume prolongs the lease of owner to ttl from now and returns its token.
func (s *Store) resume(key, owner string, ttl time.Duration) (token uint64, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.renewLocked(key, owner, ttl) {
		return 0, false
	}
	return s.keys[key].token, true
}
