package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
)

// An attempt is one Acquire, from its first request to its grant or end.
type attempt struct {
	b      *Backend
	r      backend.Request
	ttl    time.Duration // as it will be granted
	prefix string        // of all contenders
	name   string        // of this one
	own    string        // its key

	main  *lease // the lock's own, when granted
	place *lease // of the place in the queue: main, or a shorter one
	// Leases to which a request that went unanswered may have bound the owner's key, or may yet.
	doubtful []*lease
	granted  bool  // Leases has it
	rev      int64 // the revision at which the owner's key was created in the queue; 0 when there is none
	busy     error // ErrHeld once the servers have told that somebody has the key or is before
}

func newAttempt(b *Backend, r backend.Request) *attempt {
	prefix, name := b.naming.prefix(r.Key), b.names.take()
	return &attempt{b: b, r: r, ttl: b.guarantees.Round(r.TTL), prefix: prefix, name: name, own: prefix + name}
}

func (a *attempt) run(ctx context.Context) (backend.Lease, error) {
	if a.r.Wait {
		return a.queue(ctx)
	}
	return a.try(ctx)
}

// leaseLosses is how often in a row a request may find that its lease has just gone: after an outage the pool is stale.
const leaseLosses = 100

// try asks for a free key with one transaction: no contender has a key, so write the owner's.
func (a *attempt) try(ctx context.Context) (backend.Lease, error) {
	for range leaseLosses {
		if err := a.takeMain(ctx); err != nil {
			return nil, err
		}
		refreshed := a.refreshStale(ctx)
		sent, resp, err := a.commit(ctx, a.main, func(ctx context.Context) (*clientv3.TxnResponse, error) {
			return a.b.kv.Txn(ctx).
				If(a.isFree()).
				Then(a.put(a.main)).
				Else(clientv3.OpGet(a.prefix, clientv3.WithFirstCreate()...)).
				Commit()
		})
		switch {
		case isLeaseNotFound(err):
			a.b.pool.drop(a.main)
			a.main = nil
			continue
		case err != nil:
			return nil, err
		case resp.Succeeded:
			return a.grant(ctx, grantedAt{sent, resp.Header.Revision, resp.Header.Revision}, refreshed)
		}
		first := resp.Responses[0].GetResponseRange().Kvs
		if len(first) > 0 && a.isOwn(first[0]) { // an attempt that went unanswered did it
			return a.grant(ctx, grantedAt{sent, first[0].CreateRevision, first[0].ModRevision}, refreshed)
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

// put writes the owner's key, bound to l. Its value is the owner as it is.
func (a *attempt) put(l *lease) clientv3.Op {
	return clientv3.OpPut(a.own, a.r.Owner, clientv3.WithLease(clientv3.LeaseID(l.id)))
}

// takeMain makes sure that there is a lease for the lock.
func (a *attempt) takeMain(ctx context.Context) (err error) {
	if a.main == nil {
		a.main, err = a.b.pool.take(ctx, a.ttl)
	}
	return err
}

// commit sends a transaction that may bind the owner's key to l, again until it is answered, and returns when the attempt
// was sent that was.
func (a *attempt) commit(ctx context.Context, l *lease, txn func(ctx context.Context) (*clientv3.TxnResponse, error)) (
	sent time.Time, resp *clientv3.TxnResponse, err error,
) {
	unanswered, err := a.b.repeat(ctx, a.b.options.Timeout, func(ctx context.Context) (err error) {
		sent = time.Now()
		resp, err = txn(ctx)
		return err
	})
	if unanswered {
		a.doubtful = append(a.doubtful, l)
	}
	return sent, resp, err
}

// A refresh is a renewal of the lock's lease under way.
type refresh struct {
	done chan struct{}
	sent time.Time
	err  error
}

// refreshStale renews the lock's lease, at the same time as the key is asked for, if it has not enough time left for the
// TTL. nil means that it has.
func (a *attempt) refreshStale(ctx context.Context) *refresh {
	if a.b.pool.covers(a.main, time.Now()) {
		return nil
	}
	f, l := &refresh{done: make(chan struct{})}, a.main
	started := a.b.calls.Background(func() {
		defer close(f.done)
		f.sent, f.err = a.b.pool.refresh(ctx, l)
	})
	if !started {
		f.err = backend.ErrClosed
		close(f.done)
	}
	return f
}

// grantedAt tells of the request that has written the owner's key.
type grantedAt struct {
	sent     time.Time
	rev, mod int64 // the revisions at which the key was created and last written
}

// grant begins the lease of a lock whose key is bound to a.main by now.
func (a *attempt) grant(ctx context.Context, at grantedAt, refreshed *refresh) (backend.Lease, error) {
	p := a.b.pool
	if refreshed != nil {
		<-refreshed.done
	}
	for !p.covers(a.main, at.sent) {
		// The request took long, or the renewal at its side failed.
		var err error
		if at.sent, err = p.refresh(ctx, a.main); err != nil {
			a.doubtful = append(a.doubtful, a.main) // the key is there
			return nil, err
		}
	}
	h := &held{name: a.name, own: contender{a.own, at.rev}, main: a.main, mod: at.mod, echo: len(a.doubtful) > 0}
	if p.isStale(a.main) { // there is a new leader
		was := a.main
		at.sent = time.Now()
		c := &change{h: h, owner: a.r.Owner, ttl: a.ttl}
		if a.b.changeAll(ctx, []*change{c}); c.err != nil {
			a.doubtful = append(append(a.doubtful, h.doubtful...), was)
			return nil, c.err
		}
		if a.place == was {
			a.takePlace() // change has dropped it
		}
		a.main = h.main
	}
	for _, l := range append(a.doubtful, a.takePlace()) {
		switch {
		case l == a.main:
		case contains(a.doubtful, l):
			p.drop(l)
		default:
			p.put(l)
		}
	}
	a.main, a.doubtful, a.rev, a.granted = nil, nil, 0, true
	l, err := a.b.leases.Grant(ctx, a.r, backend.Grant{Token: uint64(at.rev), Sent: at.sent, TTL: a.ttl, Data: h})
	if err != nil {
		return nil, err // Leases gives it back
	}
	a.b.guard.watch(l, h, at.mod)
	return l, nil
}

func (a *attempt) takePlace() *lease {
	l := a.place
	if a.place = nil; l != nil {
		a.b.pool.unkeep(l)
	}
	return l
}

// giveUp sees to it that nothing stays behind of an attempt that got no lease. Leases to which no key can be bound go back
// to the pool; the others are revoked, which ends their keys, and what requests still on their way would do with them.
func (a *attempt) giveUp() {
	b, place := a.b, a.takePlace()
	if a.main != nil && a.main != place && !contains(a.doubtful, a.main) {
		b.pool.put(a.main)
	}
	switch {
	case a.granted: // Leases has given it back
	case len(a.doubtful) > 0:
		if place != nil && !contains(a.doubtful, place) {
			a.doubtful = append(a.doubtful, place)
		}
		a.abandon(a.doubtful...)
	case a.rev == 0:
		b.pool.put(place)
		if a.main == place {
			a.main = nil
		}
		b.names.put(a.name)
	default:
		b.calls.Background(func() { a.leave(place) })
	}
}

// abandon revokes leases in the background until it is certain that they are gone.
func (a *attempt) abandon(leases ...*lease) {
	const lastPause = time.Second // of the clean-up, at most
	end := time.Now().Add(max(a.ttl, a.b.options.Timeout))
	a.b.orphans.Store(a.r.Owner, orphan{leases, end.Add(-lastPause)})
	a.b.leases.Abandon(a.r.Key, a.r.Owner, a.ttl)
}

// An orphan is what an attempt that got no lease may have left.
type orphan struct {
	leases []*lease  // that a request may have bound the owner's key to
	last   time.Time // from when on an attempt to end it is the last: the leases end by themselves
}

// leave gives up a place in the queue.
func (a *attempt) leave(place *lease) {
	b := a.b
	unanswered, err := b.repeat(b.base, b.options.Timeout, func(ctx context.Context) error {
		_, err := b.remove(ctx, contender{a.own, a.rev})
		return err
	})
	if err != nil || unanswered {
		a.abandon(place)
		return
	}
	b.pool.put(place)
	b.names.put(a.name)
}

func contains(list []*lease, l *lease) bool {
	for _, other := range list {
		if other == l {
			return true
		}
	}
	return false
}
