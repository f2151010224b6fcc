package memory

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Resume implements backend.Resumer, for clients of one Store. No lease outlives the process.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := b.leases.Enter(ctx, r.ValidateFor(guarantees)); err != nil {
		return nil, err
	}
	defer b.leases.Leave()
	g := kit.Grant{Sent: time.Now(), TTL: guarantees.Round(r.TTL)}
	token, held := b.store.resume(r, g.TTL)
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

// resume prolongs the lease of r's owner and mode to ttl from now and returns its token.
func (s *Store) resume(r backend.Request, ttl time.Duration) (token uint64, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	h := s.heldLocked(r.Key, now).holdOf(r.Owner)
	if h == nil || h.isShared() != r.Shared {
		return 0, false
	}
	s.prolongLocked(h, now.Add(ttl))
	return h.token, true
}
