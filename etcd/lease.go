package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A boundKey is a contender's key, and the etcd lease to which the key is bound. An attempt owns it until the key is
// granted. Then it is the Data of the lock's Life.
type boundKey struct {
	name      string    // of the contender, reused after the release; empty if another client chose the name
	contender contender // created is 0 before the key is found on the servers
	guarded   guardState

	// mu is locked, once the key is granted, during a move to another lease and during a release. A renewal does not wait
	// for either.
	mu       sync.Mutex
	lease    *lease // nil before a lease is checked out, and once the key is released or deleted
	modified int64  // the revision of the latest write that this client has made, or allowed for
	// Other leases to which a request without a reply may have bound the key, or may yet bind it.
	unconfirmed []*lease
	// unsure means that a write of the key, or a release, got no reply. The write may arrive after the release.
	unsure bool

	written atomic.Int64 // the revision of the latest write, by any client, that the guard has seen; set under guard.mu
}

// isRebound reports whether another client may have bound the key to a lease of its own. It reports false during a move
// or a release, which detect that themselves.
func (k *boundKey) isRebound() bool {
	if !k.mu.TryLock() {
		return false
	}
	defer k.mu.Unlock()
	return k.lease != nil && k.written.Load() > k.modified
}

// leastLimit is the shortest time limit of a renewal, even if a short lease expires sooner.
const leastLimit = 500 * time.Millisecond

// requests makes the requests for one lease.
type requests struct{ b *Backend }

// Guarantees implements [kit.Requests].
func (q requests) Guarantees() backend.Guarantees { return q.b.guarantees }

// RenewLease implements [kit.Requests].
func (q requests) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	// If a server hangs, the renewal must fail while there is time for another one.
	limited, cancel := context.WithTimeout(ctx, max(ttl/3, leastLimit))
	defer cancel()
	granted, errs := q.b.extend(limited, []*kit.Life{l}, []time.Duration{ttl})
	return granted[0], errs[0]
}

// ReleaseLease implements [kit.Requests]. It deletes the owner's key and keeps the lease for the next lock. If a write
// of the key, or an earlier release, got no reply, the lease is revoked, which makes requests that are still under way
// fail.
func (q requests) ReleaseLease(ctx context.Context, l *kit.Life) error {
	b, k := q.b, l.Data.(*boundKey)
	b.guard.stop(k)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lease == nil {
		return backend.ErrLost
	}
	deleted, unsure, err := b.deleteOwnKey(ctx, k)
	if err != nil || k.lease == nil {
		return err
	}
	leases, ttl := append(k.unconfirmed, k.lease), k.lease.lockTTL
	if k.unsure || len(k.unconfirmed) > 0 {
		// If the revocations succeed now, no late request can take the key after Release has returned.
		leases = slices.DeleteFunc(leases, func(l *lease) bool { return b.revoke(ctx, l.id) == nil })
	}
	b.revokeInBackground(ttl, leases...)
	k.lease, k.unconfirmed = nil, nil
	switch {
	case deleted != nil:
		b.pool.revokeLater(&lease{id: deleted.Lease}) // perhaps of another client, which has resumed the lock
		return nil
	case unsure:
		return l.LostAfterDeadline()
	}
	return backend.ErrLost
}

// deleteOwnKey deletes a key. If the key was bound to the lease, and no request without a reply may bind it again,
// deleteOwnKey keeps the lease for the next lock. Otherwise another client, which has deleted the key or bound it to
// its own lease, may be about to revoke the lease.
func (b *Backend) deleteOwnKey(ctx context.Context, k *boundKey) (deleted *mvccpb.KeyValue, unsure bool, err error) {
	deleted, unsure, err = b.deleteContender(ctx, k.contender)
	k.unsure = k.unsure || err != nil
	if deleted != nil && deleted.Lease == k.lease.id && !k.unsure && len(k.unconfirmed) == 0 {
		if !unsure && k.name != "" {
			b.names.reuse(k.name)
		}
		b.pool.checkIn(k.lease)
		k.lease = nil
	}
	return deleted, unsure, err
}

// deleteContender deletes a contender's key, and returns what it deleted. deleted is nil if the key did not exist; if
// unsure, a request without a reply may have deleted it.
func (b *Backend) deleteContender(ctx context.Context, c contender) (
	deleted *mvccpb.KeyValue, unsure bool, err error,
) {
	remove := clientv3.OpDelete(c.key, clientv3.WithPrevKV())
	resp, unsure, err := b.commit(ctx, []clientv3.Cmp{createdAt(c.key, c.created)}, remove)
	if err == nil && resp.Succeeded {
		deleted = resp.Responses[0].GetResponseDeleteRange().PrevKvs[0]
	}
	return deleted, unsure, err
}

// dropLeases revokes, in the background, the leases of a lock whose key was deleted. The caller has locked k.mu.
func (b *Backend) dropLeases(k *boundKey) {
	b.pool.revokeLater(append(k.unconfirmed, k.lease)...)
	k.lease, k.unconfirmed = nil, nil
}

// revokeInBackground revokes leases, which deletes their keys and makes requests that are still under way fail. It
// repeats failed revocations for max(ttl, Options.Timeout); then the leases have expired or soon will.
func (b *Backend) revokeInBackground(ttl time.Duration, leases ...*lease) {
	b.leases.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, max(ttl, b.options.Timeout))
		defer cancel()
		pause := kit.Pause{Min: leastPause, Max: time.Second}
		for _, l := range leases {
			for l != nil && b.revoke(ctx, l.id) != nil && kit.Sleep(ctx, pause.Next(0)) == nil {
			}
		}
	})
}

// errReleasing is the error of a renewal during a release. A renewal, of one lease or of many, must not wait for a
// release that hangs. Renewals of one lock never overlap, so they need not wait for each other.
var errReleasing = errors.New("the lease is being released")

// leaseFor returns the lease whose renewal extends the lock by ttl. It returns nil if the lock must move to another
// lease.
func (k *boundKey) leaseFor(ttl time.Duration) (*lease, error) {
	if !k.mu.TryLock() {
		return nil, errReleasing
	}
	defer k.mu.Unlock()
	if k.lease == nil || k.lease.lockTTL != ttl || len(k.unconfirmed) > 0 || k.written.Load() > k.modified {
		return nil, nil
	}
	return k.lease, nil
}

// RenewBatch implements [backend.BatchRenewer]. It renews all leases on one stream, with one message each, and does not
// wait for replies in between. Locks whose TTL changes move to other leases.
func (b *Backend) RenewBatch(ctx context.Context, renewals []backend.Renewal) []error {
	return b.leases.RenewBatch(ctx, renewals, b.extend)
}

func (b *Backend) extend(ctx context.Context, lives []*kit.Life, ttls []time.Duration) ([]time.Duration, []error) {
	all := make([]*extension, len(lives))
	var renewed, moving []*extension
	for i, l := range lives {
		e := &extension{key: l.Data.(*boundKey), owner: l.Owner(), ttl: ttls[i]}
		all[i] = e
		if e.from, e.err = e.key.leaseFor(e.ttl); e.err != nil {
			continue
		}
		e.err = errNoAnswer // until there is a reply: ctx may end before any request
		if e.from != nil {
			renewed = append(renewed, e)
		} else {
			moving = append(moving, e)
		}
	}
	var moves sync.WaitGroup // concurrent with the renewals, because either may hang
	moves.Go(func() { b.moveHeld(ctx, moving) })
	b.renewAll(ctx, renewed)
	var again []*extension
	for _, e := range renewed {
		// Move the lock if its lease has ended or a new leader has renewed it, or if another client has resumed the lock:
		// that client has bound the key to its own lease.
		if e.err == nil && (b.pool.state(e.from).stale || e.key.isRebound()) || errors.Is(e.err, backend.ErrLost) {
			e.err = errNoAnswer
			again = append(again, e)
		}
	}
	b.moveHeld(ctx, again)
	moves.Wait()
	errs := make([]error, len(all))
	for i, e := range all {
		errs[i] = e.err
	}
	return ttls, errs
}

// renewAll renews the leases of extensions. It repeats unanswered renewals on a new stream, several times: the next
// server may hang too, because it has no leader.
func (b *Backend) renewAll(ctx context.Context, list []*extension) {
	const rounds = 4
	pause := kit.Pause{Min: leastPause, Max: mostPause}
	for round := 0; round < rounds && len(list) > 0 && ctx.Err() == nil; round++ {
		if round > 0 && kit.Sleep(ctx, pause.Next(0)) != nil {
			return
		}
		patience := b.options.Timeout
		leases := make([]*lease, len(list))
		for i, e := range list {
			leases[i], patience = e.from, min(patience, b.pool.patience(e.from))
		}
		var again []*extension
		for i, err := range b.pool.renew(ctx, patience, leases...) {
			list[i].err = unavailable(err)
			if err != nil && !errors.Is(err, backend.ErrLost) {
				again = append(again, list[i])
			}
		}
		list = again
	}
}

// moveHeld moves locks to other leases, up to keysPerRequest in one transaction. It skips locks that are being
// released.
func (b *Backend) moveHeld(ctx context.Context, list []*extension) {
	for some := range slices.Chunk(list, keysPerRequest) {
		if ctx.Err() == nil {
			b.moveUnlessReleasing(ctx, some)
		}
	}
}

func (b *Backend) moveUnlessReleasing(ctx context.Context, some []*extension) {
	var list []*extension
	for _, e := range some {
		if !e.key.mu.TryLock() {
			e.err = errReleasing
			continue
		}
		defer e.key.mu.Unlock()
		if e.key.lease == nil {
			e.err = backend.ErrLost
			continue
		}
		list = append(list, e)
	}
	b.move(ctx, list)
}
