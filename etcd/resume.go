package etcd

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Resume implements [backend.Resumer]. Like a renewal that changes the TTL, it binds the owner's key to another etcd
// lease: one of this client.
func (b *Backend) Resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return kit.Call(ctx, b.leases, r.ValidateFor(b.guarantees), func(ctx context.Context) (backend.Lease, error) {
		return b.resume(ctx, r)
	})
}

func (b *Backend) resume(ctx context.Context, r backend.Request) (backend.Lease, error) {
	q, err := b.readQueue(ctx, r.Key)
	if err != nil {
		return nil, err
	}
	held := q.heldBy(r.Owner)
	if held == nil || isShared(held.Key) != r.Shared {
		return nil, backend.ErrLost
	}
	k := &boundKey{contender: contenderOf(held), modified: held.ModRevision}
	e := &extension{key: k, owner: r.Owner, ttl: b.guarantees.Round(r.TTL), foreign: &lease{id: held.Lease}}
	sent := time.Now()
	if b.move(ctx, []*extension{e}); e.err != nil {
		return nil, e.err
	}
	l, err := b.leases.Resume(r, kit.Grant{Token: uint64(k.contender.created), Sent: sent, TTL: e.ttl, Data: k})
	if err == nil {
		b.guard.start(l, k)
	}
	return l, err
}
