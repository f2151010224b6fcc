package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
)

const (
	// placeTTL is the longest TTL of a place in the queue: for so long a waiter that died delays those behind it. A lock
	// with a longer one changes its lease when it is granted, which costs a write instead of a read.
	placeTTL = 30 * time.Second
	// recheck is how long a waiter trusts the silence of its watch, with up to half as much again.
	recheck = 5 * time.Second
	// leastPatience is the shortest time for which a queued waiter outlives an outage.
	leastPatience = 10 * time.Second
)

// A position is what a waiter knows of its place in the queue.
type position struct {
	before contender // empty when there may be none
	seen   int64     // the revision at which that was so, or at which the one before was deleted; 0 if not known
}

// queue asks for the key, and waits for it in the queue, which etcd orders by when the owners' keys were created. A queued
// waiter outlives an outage of max(TTL, leastPatience), and queues again at the end if its place is gone.
func (a *attempt) queue(ctx context.Context) (backend.Lease, error) {
	ended := func(err error) error {
		if a.busy != nil {
			err = a.busy
		}
		return backend.ContextError(ctx, err)
	}
	l, at, err := a.enter(ctx)
	switch {
	case l != nil:
		return l, nil
	case err == nil, isLeaseNotFound(err):
	case a.busy != nil && backend.Ended(ctx) && !a.granted:
		return nil, ended(err)
	default:
		return nil, err
	}
	patience := max(a.ttl, leastPatience)
	answered := time.Now()
	pause := backend.Pause{Min: leastPause, Max: time.Second}
	for {
		switch {
		case a.rev == 0:
			l, at, err = a.enqueue(ctx)
		case at.before.key == "":
			l, at, err = a.promote(ctx, at.seen)
		default:
			at, err = a.await(ctx, at)
		}
		switch {
		case l != nil:
			return l, nil
		case err == nil:
			answered = time.Now()
			pause.Reset()
		case a.granted: // and given back, which would meet what this owner is granted from now on
			return nil, err
		case backend.Ended(ctx):
			return nil, ended(err)
		case errors.Is(err, backend.ErrLost), isLeaseNotFound(err):
			// The place, or a lease for the lock, is gone. What there is will tell.
		case backend.Definite(err), !passing(err), time.Since(answered) > patience:
			return nil, err
		}
		if err != nil {
			// At the revision looked at the place was still there, and so it would be for ever: to a process that was
			// frozen past its turn, events come as late as this.
			at.seen = 0
			if serr := backend.Sleep(ctx, pause.Next(0)); serr != nil {
				return nil, ended(err)
			}
		}
	}
}

// enter makes the first request. Where keys have been busy lately, one transaction takes the key or a place in the queue,
// whatever is there; otherwise the shorter one that takes a free key goes first. A long lock's place needs a lease of its
// own, so that it is not in the first request unless the pool has one.
func (a *attempt) enter(ctx context.Context) (backend.Lease, position, error) {
	class := a.placeClass()
	if class != a.ttl {
		a.place = a.b.pool.takeIdle(class)
	}
	if !a.b.waitedLately() || a.place == nil && class != a.ttl {
		l, err := a.try(ctx)
		if err == nil || !errors.Is(err, backend.ErrHeld) {
			return l, position{}, err
		}
		a.busy = err
	}
	a.b.waited.Store(time.Now().UnixNano())
	return a.enqueue(ctx)
}

// lately is how long a client that had to wait expects to wait again.
const lately = time.Second

func (b *Backend) waitedLately() bool { return time.Now().UnixNano()-b.waited.Load() < int64(lately) }

func (a *attempt) placeClass() time.Duration {
	return min(a.ttl, a.b.guarantees.Round(placeTTL))
}

// enqueue takes the key if it is free, else a place in the queue.
func (a *attempt) enqueue(ctx context.Context) (l backend.Lease, at position, err error) {
	if err := a.takeMain(ctx); err != nil {
		return nil, at, err
	}
	if err := a.takePlaceLease(ctx); err != nil {
		return nil, at, err
	}
	refreshed := a.refreshStale(ctx)
	missing := clientv3.Compare(clientv3.CreateRevision(a.own), "=", 0)
	sent, resp, err := a.commit(ctx, a.place, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return a.b.kv.Txn(ctx).
			If(a.isFree()).
			Then(a.put(a.main)).
			// A copy of this request that comes late must not touch what is there by then.
			Else(clientv3.OpTxn([]clientv3.Cmp{missing}, []clientv3.Op{a.put(a.place)}, nil),
				clientv3.OpGet(a.own),
				clientv3.OpGet(a.prefix, clientv3.WithPrefix(), clientv3.WithLimit(2), clientv3.WithKeysOnly(),
					clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend))).
			Commit()
	})
	if contains(a.doubtful, a.place) {
		a.doubtful = append(a.doubtful, a.main)
	}
	switch {
	case isLeaseNotFound(err):
		if place := a.takePlace(); place != a.main { // either of them
			a.b.pool.drop(place)
		}
		a.b.pool.drop(a.main)
		a.main = nil
		return nil, at, err
	case err != nil:
		return nil, at, err
	case resp.Succeeded:
		l, err = a.grant(ctx, grantedAt{sent, resp.Header.Revision, resp.Header.Revision}, refreshed)
		return l, at, err
	}
	own := resp.Responses[1].GetResponseRange().Kvs[0]
	if own.Lease == a.main.id && a.place != a.main { // an attempt that went unanswered took the free key
		l, err = a.grant(ctx, grantedAt{sent, own.CreateRevision, own.ModRevision}, refreshed)
		return l, at, err
	}
	a.rev = own.CreateRevision
	a.b.pool.keep(a.place)
	if a.place != a.main {
		if !contains(a.doubtful, a.main) {
			a.b.pool.put(a.main)
		}
		a.main = nil
	}
	at.seen = resp.Header.Revision
	if last := resp.Responses[2].GetResponseRange().Kvs; len(last) == 2 && string(last[0].Key) == a.own {
		a.behind(&at, last[1])
	}
	return nil, at, nil
}

// behind enters whom the servers have told to be before.
func (a *attempt) behind(at *position, before *mvccpb.KeyValue) {
	at.before = contender{string(before.Key), before.CreateRevision}
	if a.busy == nil {
		a.busy = backend.ErrHeld
	}
}

// promote takes the key if nobody is before, and tells who is otherwise.
//
// It looks at the queue as it was at the revision since, 0 for the present. Nobody comes in before a place that is there:
// who is first at a revision is first from then on. And the place lives as long as its lease, whose end the client knows.
func (a *attempt) promote(ctx context.Context, since int64) (l backend.Lease, at position, err error) {
	if err := a.takeMain(ctx); err != nil {
		return nil, at, err
	}
	refreshed := a.refreshStale(ctx)
	look := []clientv3.Op{
		clientv3.OpGet(a.own),
		clientv3.OpGet(a.prefix, append(clientv3.WithLastCreate(), clientv3.WithKeysOnly(),
			clientv3.WithMaxCreateRev(a.rev-1))...),
	}
	var (
		sent = time.Now()
		resp *clientv3.TxnResponse
	)
	if a.place == a.main {
		resp, err = a.b.readAt(ctx, since, look...)
	} else {
		sent, resp, err = a.rebind(ctx, look)
	}
	switch {
	case isLeaseNotFound(err):
		a.b.pool.drop(a.main)
		a.main = nil
		return nil, at, err
	case err != nil:
		return nil, at, err
	case a.place != a.main && resp.Succeeded:
		l, err = a.grant(ctx, grantedAt{sent, a.rev, resp.Header.Revision}, refreshed)
		return l, at, err
	}
	own, before := resp.Responses[0].GetResponseRange().Kvs, resp.Responses[1].GetResponseRange().Kvs
	if at.seen = resp.Header.Revision; since > 0 && a.place == a.main {
		at.seen = since
	}
	switch {
	case !(contender{a.own, a.rev}).isThere(own):
		a.losePlace()
		return nil, at, backend.ErrLost
	case len(before) > 0:
		a.behind(&at, before[0])
		return nil, at, nil
	case own[0].Lease != a.main.id:
		return nil, at, errNoAnswer // cannot be: it could have been bound to it
	}
	l, err = a.grant(ctx, grantedAt{sent, a.rev, own[0].ModRevision}, refreshed)
	return l, at, err
}

// rebind binds the place to the lock's lease if nobody is before.
func (a *attempt) rebind(ctx context.Context, look []clientv3.Op) (time.Time, *clientv3.TxnResponse, error) {
	// The place has not been written since it was created, so that a late copy of this request changes nothing.
	untouched := clientv3.Compare(clientv3.ModRevision(a.own), "=", a.rev)
	nobodyBefore := clientv3.Compare(clientv3.CreateRevision(a.prefix), ">", a.rev-1).WithPrefix()
	return a.commit(ctx, a.main, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return a.b.kv.Txn(ctx).If(untouched, nobodyBefore).Then(a.put(a.main)).Else(look...).Commit()
	})
}

// losePlace forgets a place that is gone.
func (a *attempt) losePlace() {
	a.rev = 0
	place := a.takePlace()
	if !contains(a.doubtful, place) {
		a.b.pool.drop(place)
	}
	if place == a.main {
		a.main = nil
	}
}

// takePlaceLease makes sure that there is a lease for a place in the queue.
func (a *attempt) takePlaceLease(ctx context.Context) (err error) {
	switch class := a.placeClass(); {
	case a.place != nil:
	case class == a.ttl:
		a.place = a.main
	default:
		a.place, err = a.b.pool.take(ctx, class)
	}
	return err
}

// await returns when the contender before may be gone.
func (a *attempt) await(ctx context.Context, at position) (position, error) {
	gone, looks := make(chan int64, 1), make(chan int64, 1)
	w := a.b.watches.add(at.before, func(from int64) {
		select {
		case <-looks: // it counts no more
		default:
		}
		looks <- from
	}, func(at int64) { gone <- at })
	defer a.b.watches.stop(w)
	look := time.NewTimer(recheck + rand.N(recheck/2))
	defer look.Stop()
	for {
		var since int64
		list := []contender{at.before}
		select {
		case deleted := <-gone:
			return position{seen: deleted}, nil
		case <-a.place.gone:
			return position{}, nil // its being gone is found out by looking
		case <-ctx.Done():
			return at, backend.ContextError(ctx, nil)
		case since = <-looks:
			if since != 0 && since <= at.seen {
				continue // nothing happened between the look and the watch
			}
		case <-look.C:
			list = append(list, contender{a.own, a.rev})
			look.Reset(recheck + rand.N(recheck/2))
		}
		if there, _, err := a.b.areThere(ctx, since, list...); err != nil || slices.Contains(there, false) {
			return position{seen: since}, err
		}
	}
}
