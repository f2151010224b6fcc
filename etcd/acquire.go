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
	ttl    time.Duration // of the lock, rounded
	prefix string        // of the keys of all contenders
	rivals keyRange      // the keys of the contenders that conflict with the request
	name   string        // of this contender
	key    string        // of this contender: prefix, sharedMark if the request is for a shared lease, and name

	// The lease to which the contender's key is bound, or will be. In the queue its TTL may be shorter than the lock's.
	lease *lease
	// Leases to which a request without a reply may have bound the key, or may yet bind it.
	unconfirmed []*lease
	granted     bool // Leases owns the grant and cleans up

	created  int64 // the revision at which the key was created in the queue; 0 if the attempt is not queued
	modified int64 // the revision at which the queued key was last written

	mustQueue bool // the key was busy, or the attempt may be queued: the next request joins the queue
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
	a := &attempt{b: b, r: r, ttl: b.guarantees.Round(r.TTL), prefix: b.options.prefix(r.Key), name: b.names.next()}
	a.rivals, a.key = allKeys(a.prefix), a.prefix+a.name
	if r.Shared {
		a.rivals, a.key = exclusiveKeys(a.prefix), a.prefix+sharedMark+a.name
	}
	return a
}

// leaseLosses is how many times in a row an attempt may find that its lease has ended. After an outage, every lease of
// the pool may have ended.
const leaseLosses = 100

var errLeasesLost = errors.New("leases end as soon as they are granted")

// try makes one transaction, which writes the owner's key if no rival has a key. Waiting rivals count, too, so try
// never overtakes a waiter.
func (a *attempt) try(ctx context.Context) (backend.Lease, error) {
	for range leaseLosses {
		l, busy, err := a.putIfFree(ctx, a.ttl, func() []clientv3.Op {
			first := allKeys(a.prefix).get(clientv3.SortAscend, clientv3.WithLimit(1))
			if a.r.Shared { // the first key may belong to another shared lease
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
		own := busy.keys(len(busy.Responses) - 1)
		// An earlier request, which got no reply, wrote the owner's key when no rival had one.
		if len(own) > 0 && string(own[0].Key) == a.key && string(own[0].Value) == a.r.Owner {
			return a.grant(ctx, found(busy.sent, own[0]), busy.refreshed)
		}
		return nil, a.b.refusal(ctx, a.r.Key, busy.Responses[0].GetResponseRange())
	}
	return nil, errLeasesLost
}

// A busyReply is the reply to a transaction that found the key busy.
type busyReply struct {
	*clientv3.TxnResponse
	sent      time.Time       // when the request was sent
	refreshed <-chan struct{} // see refreshStale
}

// keys returns the keys that operation i of the transaction read.
func (r *busyReply) keys(i int) []*mvccpb.KeyValue { return r.Responses[i].GetResponseRange().Kvs }

// putIfFree writes the owner's key, bound to a lease for locks with the TTL class, if no rival has a key. It then
// returns the granted lock. Otherwise it executes the operations that busy returns, and returns their reply.
//
// A key that the owner already has, from an earlier request without a reply, does not count as free: writing the key
// again would not change its creation revision. The rivals of an exclusive request include the owner's own key.
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

// put returns the operation that writes the owner's key, bound to the lease. The value is the owner.
func (a *attempt) put() clientv3.Op {
	return clientv3.OpPut(a.key, a.r.Owner, clientv3.WithLease(clientv3.LeaseID(a.lease.id)))
}

// checkOutLease ensures that a.lease is a lease for locks with the TTL class.
func (a *attempt) checkOutLease(ctx context.Context, class time.Duration) (err error) {
	p := a.b.pool
	if a.lease != nil && a.lease.lockTTL == class && (!a.b.proxied.Load() || p.covers(a.lease, time.Now())) {
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

// refreshStale renews the lock's lease while the request for the key is under way, if the lease would expire before the
// lock. It returns a channel that is closed when the renewal ends, or nil if no renewal is needed or the lock will move
// to another lease.
func (a *attempt) refreshStale(ctx context.Context) (refreshed <-chan struct{}) {
	if a.lease.lockTTL != a.ttl || a.b.pool.covers(a.lease, time.Now()) || a.b.proxied.Load() {
		return nil
	}
	l, done := a.lease, make(chan struct{})
	if !a.b.leases.Go(func(context.Context) {
		defer close(done)
		_, _ = a.b.pool.refresh(ctx, l) // grant checks whether the renewal succeeded
	}) {
		close(done)
	}
	return done
}

// An entry is the owner's key as a request has written or found it.
type entry struct {
	sent              time.Time // when the request was sent
	created, modified int64     // the revisions at which the key was created and last written
	lease             int64     // not the attempt's lease if a delayed copy of an earlier request wrote the key
}

func found(sent time.Time, kv *mvccpb.KeyValue) entry {
	return entry{sent, kv.CreateRevision, kv.ModRevision, kv.Lease}
}

// grant grants the lock once no rival is ahead of the owner's key. It first ensures that the etcd lease outlives the
// lock.
func (a *attempt) grant(ctx context.Context, e entry, refreshed <-chan struct{}) (backend.Lease, error) {
	p := a.b.pool
	if refreshed != nil {
		<-refreshed
	}
	mustMove := a.lease.lockTTL != a.ttl || a.lease.id != e.lease
	for !mustMove && !p.covers(a.lease, e.sent) { // the request took long, or the concurrent renewal failed
		var err error
		if e.sent, err = p.refresh(ctx, a.lease); errors.Is(err, errThroughProxy) {
			mustMove = true
		} else if err != nil {
			a.addUnconfirmed(a.lease) // the key is bound to this lease
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

// move binds the attempt's key to another lease, for locks with the TTL class. ErrLost means that the key was deleted;
// its leases are then revoked.
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

// cleanUp removes anything that a failed attempt may have left on the servers. A lease to which no key can be bound
// returns to the pool. Other leases are revoked, which deletes their keys and makes requests that are still under way
// fail.
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

// revokeInBackground revokes leases. It repeats failed revocations for max(a.ttl, Options.Timeout); then the leases
// have expired or soon will.
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
	if unsure || !deleted { // another client that deleted the key may be about to revoke the lease
		a.revokeInBackground(l)
		return
	}
	b.pool.checkIn(l)
	b.names.reuse(a.name)
}
