package etcd

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// An attempt is one call of Acquire: it ends when the key is granted or the call fails.
type attempt struct {
	b      *Backend
	r      backend.Request
	ttl    time.Duration // as it will be granted
	prefix string        // of the keys of all contenders
	rivals keyRange      // of the contenders with whom the request conflicts
	name   string        // of this contender
	key    string        // of this contender: prefix, sharedMark if the request is for a shared lease, and name

	// The lease to which the contender's key is bound, or will be. In the queue its TTL may be shorter than the lock's.
	lease *lease
	// Leases to which a request without a reply may have bound the key, or may yet bind it.
	unconfirmed []*lease
	granted     bool // Leases has the grant, and cleans up

	created  int64 // the revision at which the key was created in the queue; 0 if the attempt has no place there
	modified int64 // the revision at which that key was last written

	mustQueue bool // the key was busy: the next request takes a place in the queue
	place     position
}

// Acquire implements [backend.Backend].
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	a := newAttempt(b, r)
	w := kit.Waiter{
		Try: a.try, CleanUp: a.cleanUp, Passing: passing, Pause: kit.Pause{Min: leastPause, Max: time.Second},
	}
	if r.Wait {
		w.Try, w.Sleep = a.tryInQueue, a.awaitTurn
	}
	return b.leases.Acquire(ctx, r, w)
}

func newAttempt(b *Backend, r backend.Request) *attempt {
	a := &attempt{b: b, r: r, ttl: b.guarantees.Round(r.TTL), prefix: b.naming.prefix(r.Key), name: b.names.next()}
	a.rivals, a.key = allKeys(a.prefix), a.prefix+a.name
	if r.Shared {
		a.rivals, a.key = exclusiveKeys(a.prefix), a.prefix+sharedMark+a.name
	}
	return a
}

// leaseLosses is how often in a row an attempt may find that its lease has just ended: after an outage the pool is
// stale.
const leaseLosses = 100

var errLeasesLost = errors.New("leases end as soon as they are granted")

// try makes one transaction: if no rival has a key, it writes the owner's. A rival that waits is ahead, too.
func (a *attempt) try(ctx context.Context) (backend.Lease, error) {
	for range leaseLosses {
		l, busy, err := a.putIfFree(ctx, a.ttl, func() []clientv3.Op {
			first := allKeys(a.prefix).get(clientv3.SortAscend, clientv3.WithLimit(1))
			if a.r.Shared { // there may be other shared leases before its own
				return []clientv3.Op{first, clientv3.OpGet(a.key)}
			}
			return []clientv3.Op{first}
		})
		switch {
		case isLeaseNotFound(err):
			continue
		case err != nil || l != nil:
			return l, err
		}
		first, own := busy.keys(0), busy.keys(len(busy.Responses)-1)
		if len(first) == 0 {
			return nil, backend.ErrHeld // impossible: the key is not free
		}
		// An earlier request without a reply has written the owner's key, when no rival had one.
		if len(own) > 0 && string(own[0].Key) == a.key && string(own[0].Value) == a.r.Owner {
			return a.grant(ctx, found(busy.sent, own[0]), busy.refreshed)
		}
		return nil, a.b.refusal(ctx, a.r.Key, first)
	}
	return nil, errLeasesLost
}

// A busyReply is the reply to a transaction that found the key busy.
type busyReply struct {
	*clientv3.TxnResponse
	sent      time.Time       // when the request was sent
	refreshed <-chan struct{} // see refreshStale
}

// keys returns what operation i of the transaction has read.
func (r *busyReply) keys(i int) []*mvccpb.KeyValue { return r.Responses[i].GetResponseRange().Kvs }

// putIfFree writes the owner's key, bound to a lease for locks of class, if no rival has a key; then it returns the
// granted lock. Otherwise it carries out the operations that busy returns, and returns their reply.
//
// A key that the owner already has, from an earlier request without a reply, is not free: to write it again would not
// change the revision of its creation. The rivals of an exclusive request include the owner's own key.
func (a *attempt) putIfFree(ctx context.Context, class time.Duration, busy func() []clientv3.Op) (
	backend.Lease, *busyReply, error,
) {
	if err := a.checkOutLease(ctx, class); err != nil {
		return nil, nil, err
	}
	free := []clientv3.Cmp{a.rivals.isEmpty()}
	if a.r.Shared {
		free = append(free, missing(a.key))
	}
	r := &busyReply{refreshed: a.refreshStale(ctx)}
	unsure, err := a.b.repeat(ctx, func(ctx context.Context) (err error) {
		r.sent = time.Now()
		r.TxnResponse, err = a.b.kv.Txn(ctx).
			If(free...).
			Then(a.put()).
			Else(busy()...).
			Commit()
		return err
	})
	if unsure {
		a.addUnconfirmed(a.lease)
	}
	switch {
	case isLeaseNotFound(err):
		a.b.pool.revokeLater(a.lease)
		a.lease = nil
		return nil, nil, err
	case err != nil:
		return nil, nil, err
	case r.Succeeded:
		rev := r.Header.Revision
		l, err := a.grant(ctx, entry{r.sent, rev, rev, a.lease.id}, r.refreshed)
		return l, nil, err
	}
	return nil, r, nil
}

// put writes the owner's key, bound to the lease. Its value is the owner.
func (a *attempt) put() clientv3.Op {
	return clientv3.OpPut(a.key, a.r.Owner, clientv3.WithLease(clientv3.LeaseID(a.lease.id)))
}

// checkOutLease makes sure that the attempt has a lease for locks of class.
func (a *attempt) checkOutLease(ctx context.Context, class time.Duration) (err error) {
	p := a.b.pool
	if a.lease != nil && a.lease.class == class && (!a.b.proxied.Load() || p.covers(a.lease, time.Now())) {
		return nil
	}
	if !slices.Contains(a.unconfirmed, a.lease) {
		p.checkIn(a.lease)
	}
	a.lease, err = p.checkOut(ctx, class)
	return err
}

func (a *attempt) addUnconfirmed(leases ...*lease) {
	for _, l := range leases {
		if l != nil && !slices.Contains(a.unconfirmed, l) {
			a.unconfirmed = append(a.unconfirmed, l)
		}
	}
}

// refreshStale renews the lock's lease while the key is requested, if the lease ends before the lock would. It returns
// nil if no renewal is needed, or the lock will get another lease.
func (a *attempt) refreshStale(ctx context.Context) (refreshed <-chan struct{}) {
	if a.lease.class != a.ttl || a.b.pool.covers(a.lease, time.Now()) || a.b.proxied.Load() {
		return nil
	}
	l, done := a.lease, make(chan struct{})
	if !a.b.leases.Go(func(context.Context) {
		defer close(done)
		_, _ = a.b.pool.refresh(ctx, l) // grant checks whether it has succeeded
	}) {
		close(done)
	}
	return done
}

// An entry is the owner's key as a request has written or found it.
type entry struct {
	sent              time.Time // when the request was sent
	created, modified int64     // the revisions at which the key was created and last written
	lease             int64     // not the attempt's if a delayed copy of an earlier request wrote the key
}

func found(sent time.Time, kv *mvccpb.KeyValue) entry {
	return entry{sent, kv.CreateRevision, kv.ModRevision, kv.Lease}
}

// grant begins the lease of a lock whose key no rival of the owner has.
func (a *attempt) grant(ctx context.Context, e entry, refreshed <-chan struct{}) (backend.Lease, error) {
	p := a.b.pool
	if refreshed != nil {
		<-refreshed
	}
	mustMove := a.lease.class != a.ttl || a.lease.id != e.lease
	for !mustMove && !p.covers(a.lease, e.sent) { // the request took long, or the renewal beside it failed
		var err error
		if e.sent, err = p.refresh(ctx, a.lease); errors.Is(err, errThroughProxy) {
			mustMove = true
		} else if err != nil {
			a.addUnconfirmed(a.lease) // the key is bound to it
			return nil, err
		}
	}
	k := a.lockedKey(e.created, e.modified)
	if mustMove || p.isStale(a.lease) {
		e.sent = time.Now()
		if err := a.move(ctx, k, a.ttl); err != nil {
			a.addUnconfirmed(a.lease)
			return nil, err
		}
	}
	for _, l := range a.unconfirmed {
		if l != k.lease {
			p.revokeLater(l)
		}
	}
	a.lease, a.unconfirmed, a.created, a.granted = nil, nil, 0, true
	l, err := a.b.leases.Grant(ctx, a.r, kit.Grant{Token: uint64(e.created), Sent: e.sent, TTL: a.ttl, Data: k})
	if err != nil {
		return nil, err
	}
	a.b.guard.start(l, k)
	return l, nil
}

func (a *attempt) lockedKey(created, modified int64) *lockedKey {
	return &lockedKey{
		name: a.name, contender: contender{a.key, created}, lease: a.lease, modified: modified,
		unsure: len(a.unconfirmed) > 0,
	}
}

// move binds the attempt's key to another lease, one for locks of class. ErrLost means that the key is gone, and its
// lease with it.
func (a *attempt) move(ctx context.Context, k *lockedKey, class time.Duration) error {
	e := &extension{key: k, owner: a.r.Owner, ttl: class}
	a.b.move(ctx, []*extension{e})
	a.lease, a.modified = k.lease, k.modified
	a.addUnconfirmed(k.unconfirmed...)
	if errors.Is(e.err, backend.ErrLost) {
		a.created = 0
	}
	return e.err
}

// cleanUp removes what a failed attempt may have left on the servers. A lease to which no key can be bound goes back to
// the pool; others are revoked, which ends their keys and defeats requests that are still under way.
func (a *attempt) cleanUp() {
	b, l := a.b, a.lease
	switch {
	case a.granted: // Leases cleans up
	case len(a.unconfirmed) > 0:
		a.addUnconfirmed(l)
		a.revokeInBackground(a.unconfirmed...)
	case a.created == 0:
		b.pool.checkIn(l)
		b.names.reuse(a.name)
	default:
		b.leases.Go(func(ctx context.Context) { a.leaveQueue(ctx, l) })
	}
}

// revokeInBackground revokes leases. It repeats each revocation until it succeeds or the lease has ended by itself.
func (a *attempt) revokeInBackground(leases ...*lease) {
	b, limit := a.b, max(a.ttl, a.b.options.Timeout)
	b.leases.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		pause := kit.Pause{Min: leastPause, Max: time.Second}
		for _, l := range leases {
			for b.pool.revoke(ctx, l) != nil && kit.Sleep(ctx, pause.Next(0)) == nil {
			}
		}
	})
}

func (a *attempt) leaveQueue(ctx context.Context, l *lease) {
	b := a.b
	deleted, unsure, _ := b.deleteContender(ctx, a.key, a.modified)
	if unsure || !deleted { // whoever has deleted the key may be about to revoke the lease
		a.revokeInBackground(l)
		return
	}
	b.pool.checkIn(l)
	b.names.reuse(a.name)
}
