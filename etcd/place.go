package etcd

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

// placeExpires returns a channel that receives when renewPlace is due, and a function that frees its timer. The channel
// is nil if the pool renews the lease of the place.
func (a *attempt) placeExpires() (due <-chan time.Time, stop func()) {
	if !a.b.proxied.Load() {
		return nil, func() {}
	}
	a.b.pool.mu.Lock()
	next := time.Until(a.lease.renewed.Add(a.lease.ttl / 3))
	a.b.pool.mu.Unlock()
	timer := time.NewTimer(max(next, a.lease.ttl/12)) // also after a failure
	return timer.C, func() { timer.Stop() }
}

// renewPlace binds the owner's key in the queue to a new lease, because a proxy does not renew leases reliably. ErrLost
// means that the place is gone.
func (a *attempt) renewPlace(ctx context.Context) error {
	h := &held{name: a.name, own: contender{a.own, a.rev}, main: a.lease, mod: a.mod, unsure: len(a.doubtful) > 0}
	e := &extension{h: h, owner: a.r.Owner, ttl: a.lease.class}
	a.b.changeAll(ctx, []*extension{e})
	a.doubt(h.doubtful...)
	if errors.Is(e.err, backend.ErrLost) {
		a.lease, a.rev = nil, 0 // changeAll has dropped the lease
		return e.err
	}
	a.lease, a.mod = h.main, h.mod
	return e.err
}
