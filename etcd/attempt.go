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

// An attempt is one Acquire, from its first request to its grant or end.
type attempt struct {
	b      *Backend
	r      backend.Request
	ttl    time.Duration // as it will be granted
	prefix string        // of all contenders
	name   string        // of this one
	own    string        // its key

	// The lease to which the owner's key is bound, or will be. That of a place in the queue may be shorter than the lock's TTL.
	lease *lease
	// Leases to which a request that went unanswered may have bound the owner's key, or may yet.
	doubtful []*lease
	granted  bool  // Leases has it
	rev      int64 // the revision at which the owner's key was created in the queue; 0 when there is none
	mod      int64 // the revision at which it was last written there

	// Of a waiter.
	busy    error    // a refusal that the Waiter does not know of
	entered bool     // the first request was answered
	at      position // in the queue
}

func newAttempt(b *Backend, r backend.Request) *attempt {
	prefix, name := b.naming.prefix(r.Key), b.names.take()
	return &attempt{b: b, r: r, ttl: b.guarantees.Round(r.TTL), prefix: prefix, name: name, own: prefix + name}
}

// leaseLosses is how often in a row a request may find that its lease has just gone: after an outage the pool is stale.
const leaseLosses = 100

// try asks for a free key with one transaction: no contender has a key, so write the owner's.
func (a *attempt) try(ctx context.Context) (backend.Lease, error) {
	for range leaseLosses {
		if err := a.take(ctx, a.ttl); err != nil {
			return nil, err
		}
		refreshed := a.refreshStale(ctx)
		sent, resp, err := a.commit(ctx, func(ctx context.Context) (*clientv3.TxnResponse, error) {
			return a.b.kv.Txn(ctx).
				If(a.isFree()).
				Then(a.put()).
				Else(clientv3.OpGet(a.prefix, clientv3.WithFirstCreate()...)).
				Commit()
		})
		switch {
		case isLeaseNotFound(err):
			a.b.pool.drop(a.lease)
			a.lease = nil
			continue
		case err != nil:
			return nil, err
		case resp.Succeeded:
			return a.grant(ctx, a.written(sent, resp), refreshed)
		}
		first := resp.Responses[0].GetResponseRange().Kvs
		if len(first) > 0 && a.isOwn(first[0]) { // an attempt that went unanswered did it
			return a.grant(ctx, found(sent, first[0]), refreshed)
		}
		if len(first) == 0 {
			return nil, backend.ErrHeld // cannot be: the key is not free
		}
		return nil, &backend.HeldError{Holder: holder(first[0])}
	}
	return nil, errLeasesLost
}

var errLeasesLost = errors.New("leases are gone as soon as they are granted")

func (a *attempt) isOwn(kv *mvccpb.KeyValue) bool {
	return string(kv.Key) == a.own && string(kv.Value) == a.r.Owner
}

func (a *attempt) isFree() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(a.prefix), "=", 0).WithPrefix()
}

// put writes the owner's key, bound to the lease. Its value is the owner as it is.
func (a *attempt) put() clientv3.Op {
	return clientv3.OpPut(a.own, a.r.Owner, clientv3.WithLease(clientv3.LeaseID(a.lease.id)))
}

// take makes sure that there is a lease for locks of a TTL.
func (a *attempt) take(ctx context.Context, class time.Duration) (err error) {
	if a.lease != nil && a.lease.class == class && (!a.b.proxied.Load() || a.b.pool.covers(a.lease, time.Now())) {
		return nil
	}
	if !slices.Contains(a.doubtful, a.lease) {
		a.b.pool.put(a.lease)
	}
	a.lease, err = a.b.pool.take(ctx, class)
	return err
}

// commit sends a transaction that may bind the owner's key to the lease, again until it is answered, and returns when the
// attempt was sent that was.
func (a *attempt) commit(ctx context.Context, txn func(ctx context.Context) (*clientv3.TxnResponse, error)) (
	sent time.Time, resp *clientv3.TxnResponse, err error,
) {
	unanswered, err := a.b.repeat(ctx, func(ctx context.Context) (err error) {
		sent = time.Now()
		resp, err = txn(ctx)
		return err
	})
	if unanswered {
		a.doubt(a.lease)
	}
	return sent, resp, err
}

func (a *attempt) doubt(leases ...*lease) {
	for _, l := range leases {
		if !slices.Contains(a.doubtful, l) {
			a.doubtful = append(a.doubtful, l)
		}
	}
}

// refreshStale renews the lock's lease, at the same time as the key is asked for, if it has not enough time left for the
// TTL. nil means that it has, or will not be the lock's.
func (a *attempt) refreshStale(ctx context.Context) (refreshed <-chan struct{}) {
	if a.lease.class != a.ttl || a.b.pool.covers(a.lease, time.Now()) || a.b.proxied.Load() {
		return nil
	}
	l, done := a.lease, make(chan struct{})
	if !a.b.calls.Background(func() {
		defer close(done)
		_, _ = a.b.pool.refresh(ctx, l) // the grant looks whether it has succeeded
	}) {
		close(done)
	}
	return done
}

// An entry is the owner's key as a request has written or found it.
type entry struct {
	sent     time.Time // when the request was sent
	rev, mod int64     // the revisions at which the key was created and last written
	lease    int64     // to which it is bound: another than the attempt's where an earlier request, thought to be over, has written it
}

func (a *attempt) written(sent time.Time, resp *clientv3.TxnResponse) entry {
	return entry{sent, resp.Header.Revision, resp.Header.Revision, a.lease.id}
}

func found(sent time.Time, kv *mvccpb.KeyValue) entry {
	return entry{sent, kv.CreateRevision, kv.ModRevision, kv.Lease}
}

// grant begins the lease of a lock whose key nobody else has any more.
func (a *attempt) grant(ctx context.Context, e entry, refreshed <-chan struct{}) (backend.Lease, error) {
	p := a.b.pool
	if refreshed != nil {
		<-refreshed
	}
	another := a.lease.class != a.ttl || a.lease.id != e.lease // is needed
	for !another && !p.covers(a.lease, e.sent) {
		// The request took long, or the renewal at its side failed.
		var err error
		if e.sent, err = p.refresh(ctx, a.lease); errors.Is(err, errThroughProxy) {
			another = true
		} else if err != nil {
			a.doubt(a.lease) // the key is there
			return nil, err
		}
	}
	h := &held{name: a.name, own: contender{a.own, e.rev}, main: a.lease, mod: e.mod, unsure: len(a.doubtful) > 0}
	if another || p.isStale(a.lease) { // there is a new leader
		e.sent = time.Now()
		c := &extension{h: h, owner: a.r.Owner, ttl: a.ttl}
		if a.b.changeAll(ctx, []*extension{c}); c.err != nil {
			if errors.Is(c.err, backend.ErrLost) {
				a.lease, a.rev = nil, 0 // it is let go with the key, and no other may be bound to it
				return nil, c.err
			}
			a.doubt(append(h.doubtful, a.lease)...)
			return nil, c.err
		}
	}
	for _, l := range a.doubtful {
		if l != h.main {
			p.drop(l)
		}
	}
	a.lease, a.doubtful, a.rev, a.granted = nil, nil, 0, true
	l, err := a.b.leases.Grant(ctx, a.r, kit.Grant{Token: uint64(e.rev), Sent: e.sent, TTL: a.ttl, Data: h})
	if err != nil {
		return nil, err // Leases gives it back
	}
	a.b.guard.watch(l, h, e.mod)
	return l, nil
}

// giveUp sees to it that nothing stays behind of an attempt that got no lease. A lease to which no key can be bound goes back
// to the pool; others are revoked, which ends their keys, and what requests still on their way would do with them.
func (a *attempt) giveUp() {
	b, l := a.b, a.lease
	switch {
	case a.granted: // Leases has given it back
	case len(a.doubtful) > 0:
		if l != nil {
			a.doubt(l)
		}
		a.abandon(a.doubtful...)
	case a.rev == 0:
		b.pool.put(l)
		b.names.put(a.name)
	default:
		b.calls.Background(func() { a.leave(l) })
	}
}

// abandon revokes leases in the background until it is certain that they are gone, or have ended by themselves.
func (a *attempt) abandon(leases ...*lease) {
	b, most := a.b, max(a.ttl, a.b.options.Timeout)
	b.calls.Background(func() {
		ctx, cancel := context.WithTimeout(b.base, most)
		defer cancel()
		pause := kit.Pause{Min: leastPause, Max: time.Second}
		for _, l := range leases {
			for b.pool.revoke(ctx, l) != nil && kit.Sleep(ctx, pause.Next(0)) == nil {
			}
		}
	})
}

// leave gives up a place in the queue.
func (a *attempt) leave(l *lease) {
	b := a.b
	var deleted bool
	unanswered, _ := b.repeat(b.base, func(ctx context.Context) (err error) {
		deleted, err = b.remove(ctx, contender{a.own, a.rev})
		return err
	})
	if unanswered || !deleted { // by another client, it may be, who revokes its lease now
		a.abandon(l)
		return
	}
	b.pool.put(l)
	b.names.put(a.name)
}
