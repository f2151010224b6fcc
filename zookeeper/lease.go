package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A lease is a Life whose deadline is never later than the ensemble certainly keeps its session, and never further away
// than MaxSilence. Only a Life that is longer than that has a later one.
type lease struct {
	*kit.Life
	n *node
}

// Deadline implements [backend.Lease].
func (l lease) Deadline() time.Time {
	end := l.Life.Deadline()
	s, _ := l.n.home()
	if claim := s.contact.claim(s.b.guarantees.MaxSilence); claim.Before(end) {
		return claim
	}
	return end
}

// begin makes the lease of a grant, and sees to its end: what nobody renews is removed by this process, or by the
// expiry of the session if that hangs.
func (b *Backend) begin(n *node, life *kit.Life) backend.Lease {
	n.mu.Lock()
	n.life = life
	n.mu.Unlock()
	life.OnLost(func() {
		if !b.isClosing() {
			b.calls.Background(func() { b.clear(n) })
		}
	})
	if s, _ := n.home(); s.isOver() { // between its entry in the session and now
		life.Lose()
	} else {
		s.watchSoon(n)
	}
	return lease{life, n}
}

// clear removes the node of a lease that is over.
func (b *Backend) clear(n *node) {
	s, maybe := n.end()
	for _, s := range []*session{s, maybe} {
		if s != nil {
			s.doom(&doom{dir: n.dir, name: n.name, orphan: true})
			s.part(n)
		}
	}
}

// requests are what Leases asks of the ensemble.
type requests struct{ b *Backend }

var _ kit.Requests = requests{}

// Guarantees implements [kit.Requests].
func (q requests) Guarantees() backend.Guarantees { return q.b.guarantees }

// RenewLease implements [kit.Requests].
func (q requests) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	granted, errs := q.b.renewAll(ctx, []*kit.Life{l}, []time.Duration{ttl})
	return granted[0], errs[0]
}

// ReleaseLease implements [kit.Requests]. Clean-ups are the sessions' own business, see doom.
func (q requests) ReleaseLease(ctx context.Context, l *kit.Life) error {
	n := l.Data.(*node)
	s, maybe := n.end()
	if s.isOver() && maybe != nil && !maybe.isOver() {
		s = maybe
	}
	defer s.part(n)
	if s.isOver() { // its servers have removed, or will remove, what it had
		return backend.ErrLost
	}
	err := s.remove(context.WithoutCancel(ctx), n.path())
	if maybe != nil {
		q.b.clear(n)
	}
	switch {
	case err == nil:
		q.b.turns.left(n)
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return backend.ErrLost
	}
	s.doom(&doom{dir: n.dir, name: n.name})
	return unavailable(context.WithoutCancel(ctx), err)
}
