package etcd

import (
	"context"
	"errors"
	"sync"
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

	*boundKey      // in the queue, the TTL of its lease may be shorter than the lock's
	granted   bool // Leases owns the key and cleans up

	sent      time.Time      // when the latest request for the key was sent
	renewals  sync.WaitGroup // of leases, by refreshStale
	mustQueue bool           // the key was busy, or the attempt may be queued: the next request joins the queue
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
	k := &boundKey{name: b.names.next()}
	a := &attempt{b: b, r: r, ttl: b.guarantees.Round(r.TTL), prefix: b.options.prefix(r.Key), boundKey: k}
	a.rivals, k.contender.key = allKeys(a.prefix), a.prefix+k.name
	if r.Shared {
		a.rivals, k.contender.key = exclusiveKeys(a.prefix), a.prefix+sharedMark+k.name
	}
	return a
}

// leaseLosses is how many leases in a row a request may find ended. After an outage, every lease of the pool may have
// ended.
const leaseLosses = 100

var errLeasesLost = errors.New("leases end as soon as they are granted")

// try makes one transaction, which writes the owner's key if no rival has a key. Waiting rivals count, too, so try
// never overtakes a waiter.
func (a *attempt) try(ctx context.Context) (backend.Lease, error) {
	l, busy, err := a.putIfFree(ctx, a.ttl, func() []clientv3.Op {
		first := allKeys(a.prefix).get(clientv3.SortAscend, clientv3.WithLimit(1))
		if a.r.Shared { // the first key may belong to another shared lease
			return []clientv3.Op{first, clientv3.OpGet(a.contender.key)}
		}
		return []clientv3.Op{first}
	})
	if busy == nil {
		return l, err
	}
	own := keysRead(busy, len(busy.Responses)-1)
	// An earlier request, which got no reply, wrote the owner's key when no rival had one.
	if len(own) > 0 && string(own[0].Key) == a.contender.key && string(own[0].Value) == a.r.Owner {
		return a.grant(ctx, own[0].CreateRevision, own[0].ModRevision, own[0].Lease)
	}
	return nil, a.b.refusal(ctx, a.r.Key, busy.Responses[0].GetResponseRange())
}

// keysRead returns the keys that operation i of a transaction has read.
func keysRead(resp *clientv3.TxnResponse, i int) []*mvccpb.KeyValue {
	return resp.Responses[i].GetResponseRange().Kvs
}

// putIfFree writes the owner's key, bound to a lease for locks with a TTL of lockTTL, if no rival has a key. It then
// returns the granted lock. Otherwise it executes the operations that busy returns, and returns their reply. If the
// lease has ended, putIfFree uses another.
//
// A key that the owner already has, from an earlier request without a reply, does not count as free: writing the key
// again would not change its creation revision. The rivals of an exclusive request include the owner's own key.
func (a *attempt) putIfFree(ctx context.Context, lockTTL time.Duration, busy func() []clientv3.Op) (
	backend.Lease, *clientv3.TxnResponse, error,
) {
	free := []clientv3.Cmp{a.rivals.isEmpty()}
	if a.r.Shared {
		free = append(free, createdAt(a.contender.key, 0))
	}
	for range leaseLosses {
		if err := a.checkOutLease(ctx, lockTTL); err != nil {
			return nil, nil, err
		}
		a.refreshStale(ctx)
		var resp *clientv3.TxnResponse
		unsure, err := a.b.repeat(ctx, func(ctx context.Context) (err error) {
			a.sent = time.Now()
			resp, err = a.b.kv.Txn(ctx).If(free...).Then(a.put()).Else(busy()...).Commit()
			return err
		})
		a.unsure = a.unsure || unsure
		switch {
		case isLeaseNotFound(err):
			a.lease = nil
		case err != nil:
			return nil, nil, err
		case resp.Succeeded:
			l, err := a.grant(ctx, resp.Header.Revision, resp.Header.Revision, a.lease.id)
			return l, nil, err
		default:
			return nil, resp, nil
		}
	}
	return nil, nil, errLeasesLost
}

// put returns the operation that writes the owner's key, bound to the lease. The value is the owner.
func (a *attempt) put() clientv3.Op {
	return clientv3.OpPut(a.contender.key, a.r.Owner, clientv3.WithLease(clientv3.LeaseID(a.lease.id)))
}

// checkOutLease ensures that a.lease is a lease for locks with a TTL of lockTTL.
func (a *attempt) checkOutLease(ctx context.Context, lockTTL time.Duration) (err error) {
	p := a.b.pool
	switch {
	case a.lease == nil:
	case a.lease.lockTTL == lockTTL:
		return nil
	case a.unsure: // the key may be bound to it
		a.unconfirmed = append(a.unconfirmed, a.lease)
	default:
		p.checkIn(a.lease)
	}
	a.lease, err = p.checkOut(ctx, lockTTL)
	return err
}

// refreshStale renews the lock's lease while a request for the key is under way, if the lease would expire before the
// lock. grant waits for the renewal and checks whether it succeeded.
func (a *attempt) refreshStale(ctx context.Context) {
	if l := a.lease; l.lockTTL == a.ttl && !a.b.pool.state(l).covers(time.Now()) {
		a.renewals.Go(func() { _ = a.b.pool.refresh(ctx, l) })
	}
}

// grant grants the lock once no rival is ahead of the owner's key. created and modified are the revisions at which the
// key was created and last written, and bound is the etcd lease to which the key is bound: another lease than the
// attempt's if a delayed copy of an earlier request wrote the key. grant first ensures that the etcd lease outlives the
// lock.
func (a *attempt) grant(ctx context.Context, created, modified, bound int64) (backend.Lease, error) {
	p, k := a.b.pool, a.boundKey
	k.contender.created, k.modified = created, modified
	if !p.state(k.lease).covers(a.sent) {
		a.renewals.Wait()
	}
	mustMove := k.lease.lockTTL != a.ttl || k.lease.id != bound
	if !mustMove && !p.state(k.lease).covers(a.sent) { // the request took long, or the concurrent renewal failed
		a.sent = time.Now()
		if err := p.refresh(ctx, k.lease); err != nil && !errors.Is(err, errThroughProxy) {
			return nil, err
		}
		mustMove = !p.state(k.lease).covers(a.sent) // through a proxy
	}
	if mustMove || p.state(k.lease).stale {
		a.sent = time.Now()
		if err := a.move(ctx, a.ttl); err != nil {
			return nil, err
		}
	}
	p.revokeLater(k.unconfirmed...)
	k.unconfirmed, a.granted = nil, true
	l, err := a.b.leases.Grant(ctx, a.r, kit.Grant{Token: uint64(created), Sent: a.sent, TTL: a.ttl, Data: k})
	if err != nil {
		return nil, err
	}
	a.b.guard.start(l, k)
	return l, nil
}

// move binds the attempt's key to another lease, for locks with a TTL of lockTTL. ErrLost means that the key was
// deleted; its leases are then revoked.
func (a *attempt) move(ctx context.Context, lockTTL time.Duration) error {
	e := &extension{key: a.boundKey, owner: a.r.Owner, ttl: lockTTL}
	if a.b.move(ctx, []*extension{e}); errors.Is(e.err, backend.ErrLost) {
		a.contender.created = 0
	}
	return e.err
}

// cleanUp removes anything that a failed attempt may have left on the servers. A lease to which no key can be bound
// returns to the pool.
func (a *attempt) cleanUp() {
	b, k := a.b, a.boundKey
	switch {
	case a.granted: // Leases cleans up
	case k.unsure || len(k.unconfirmed) > 0:
		b.revokeInBackground(a.ttl, append(k.unconfirmed, k.lease)...)
	case k.contender.created == 0:
		b.pool.checkIn(k.lease)
		b.names.reuse(k.name)
	default:
		b.leases.Go(func(ctx context.Context) {
			if _, _, _ = b.deleteOwnKey(ctx, k); k.lease != nil {
				b.revokeInBackground(a.ttl, k.lease)
			}
		})
	}
}
