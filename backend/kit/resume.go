package kit

import (
	"context"

	"github.com/anylock/lock/backend"
)

// Resume begins, in this client, the life of a lease that r.Owner already holds at the store ([backend.Resumer]). g
// describes the request that extended the lease. Unlike Grant, a failed Resume ends nothing at the store: the lease is
// not this client's to end.
func (s *Leases) Resume(r backend.Request, g Grant) (*Life, error) {
	l, err := s.start(context.Background(), r, g)
	if err != nil {
		return nil, err
	}
	if g.Unsure {
		l.mayRegrant = false // a renewal grants nothing
		l.NoteUnanswered(g.TTL)
	}
	return l, nil
}
