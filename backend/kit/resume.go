package kit

import (
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
)

// Resume begins, in this client, the life of a lease that r.Owner already holds at the store ([backend.Resumer]). g
// describes the request that extended the lease. Unlike Grant, a failed Resume ends nothing at the store: the lease is
// not this client's to end.
func (s *Leases) Resume(r backend.Request, g Grant) (*Life, error) {
	if g.Token >= backend.TokenLimit {
		return nil, fmt.Errorf("%w: token %d is not below 2^55", backend.ErrUnsupported, g.Token)
	}
	l := &Life{Data: g.Data, leases: s, key: r.Key, owner: r.Owner, shared: r.Shared, token: g.Token, mayReturn: g.Unsure}
	l.place.Item = l
	l.granted, l.kept = time.Now(), g.TTL
	deadline := backend.Deadline(g.Sent, g.TTL)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return nil, backend.ErrClosed
	}
	if late := l.granted.Sub(deadline); late >= 0 {
		return nil, fmt.Errorf("%w: the answer arrived %v after the deadline", backend.ErrLost, late.Round(time.Millisecond))
	}
	s.clock.Set(&l.place, deadline)
	s.clock.Arm()
	return l, nil
}
