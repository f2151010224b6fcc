package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
)

const (
	// placeTTL is the longest TTL of a place in the queue: for so long a waiter that died delays those behind it.
	placeTTL = 8 * time.Second
	// recheck is how long a waiter trusts the silence of its watch, with up to half as much again.
	recheck = 5 * time.Second
	// leastPatience is the shortest time for which a queued waiter outlives an outage.
	leastPatience = 10 * time.Second
)

// A position is what a waiter knows of its place in the queue.
type position struct {
	before string // the key of the contender before; empty when there may be none
	seen   int64  // the revision at which that was so
}

// queue asks for the key, and waits for it in the queue, which etcd orders by when the owners' keys were created. A queued
// waiter outlives an outage of max(TTL, leastPatience), and queues again at the end if its place is gone.
func (a *attempt) queue(ctx context.Context) (backend.Lease, error) {
	l, at, err := a.enter(ctx)
	if l != nil || err != nil && !isLeaseNotFound(err) {
		return l, err
	}
	patience := max(a.ttl, leastPatience)
	answered := time.Now()
	pause := backend.Pause{Min: leastPause, Max: time.Second}
	for {
		switch {
		case a.rev == 0:
			l, at, err = a.enqueue(ctx)
		case at.before == "":
			l, at, err = a.promote(ctx)
		default:
			at, err = a.await(ctx, at)
		}
		switch {
		case l != nil:
			return l, nil
		case err == nil:
			answered = time.Now()
			pause.Reset()
		case ctx.Err() != nil:
			return nil, backend.ContextError(ctx, err)
		case errors.Is(err, backend.ErrLost), isLeaseNotFound(err):
			// The place, or a lease for the lock, is gone. What there is will tell.
		case backend.Definite(err), !passing(err) && !errors.Is(err, errNoAnswer), time.Since(answered) > patience:
			return nil, err
		default:
			at.before = "" // look, when the outage is over
		}
		if err != nil {
			if serr := backend.Sleep(ctx, pause.Next(0)); serr != nil {
				return nil, backend.ContextError(ctx, err)
			}
		}
	}
}

// enter makes the first request. A place in the queue needs a lease of its own: if the pool has one, or the lock's will
// do, one transaction takes the key or a place, whatever is there. Else the key is tried first.
func (a *attempt) enter(ctx context.Context) (backend.Lease, position, error) {
	if a.place = a.b.pool.takeIdle(a.placeClass()); a.place == nil {
		l, err := a.try(ctx)
		if err == nil || !errors.Is(err, backend.ErrHeld) {
			return l, position{}, err
		}
	}
	return a.enqueue(ctx)
}

func (a *attempt) placeClass() time.Duration {
	return min(a.ttl, a.b.guarantees.Round(placeTTL))
}

// enqueue takes the key if it is free, else a place in the queue.
func (a *attempt) enqueue(ctx context.Context) (l backend.Lease, at position, err error) {
	if err := a.takeMain(ctx); err != nil {
		return nil, at, err
	}
	if a.place == nil {
		if a.place, err = a.b.pool.take(ctx, a.placeClass()); err != nil {
			return nil, at, err
		}
	}
	refreshed := a.refreshStale(ctx)
	missing := clientv3.Compare(clientv3.CreateRevision(a.own), "=", 0)
	sent, resp, err := a.commit(ctx, a.place, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return a.b.kv.Txn(ctx).
			If(a.isFree()).
			Then(a.put(valueHeld, a.main)).
			// A copy of this request that comes late must not touch what is there by then.
			Else(clientv3.OpTxn([]clientv3.Cmp{missing}, []clientv3.Op{a.put(valueWaiting, a.place)}, nil),
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
		// Either of them.
		a.b.pool.drop(a.main, a.takePlace())
		a.main = nil
		return nil, at, err
	case err != nil:
		return nil, at, err
	case resp.Succeeded:
		l, err = a.grant(ctx, grantedAt{sent, resp.Header.Revision, resp.Header.Revision}, refreshed)
		return l, at, err
	}
	own := resp.Responses[1].GetResponseRange().Kvs[0]
	if own.Lease == a.main.id { // an attempt that went unanswered took the free key
		l, err = a.grant(ctx, grantedAt{sent, own.CreateRevision, own.ModRevision}, refreshed)
		return l, at, err
	}
	a.rev = own.CreateRevision
	a.b.pool.keep(a.place)
	if !contains(a.doubtful, a.main) {
		a.b.pool.put(a.main)
	}
	a.main = nil
	at.seen = resp.Header.Revision
	if last := resp.Responses[2].GetResponseRange().Kvs; len(last) == 2 && string(last[0].Key) == a.own {
		at.before = string(last[1].Key)
	}
	return nil, at, nil
}

// promote takes the key if nobody is before, and tells who is otherwise.
func (a *attempt) promote(ctx context.Context) (l backend.Lease, at position, err error) {
	if err := a.takeMain(ctx); err != nil {
		return nil, at, err
	}
	refreshed := a.refreshStale(ctx)
	// The place has not been written since it was created, so that a late copy of this request changes nothing.
	untouched := clientv3.Compare(clientv3.ModRevision(a.own), "=", a.rev)
	nobodyBefore := clientv3.Compare(clientv3.CreateRevision(a.prefix), ">", a.rev-1).WithPrefix()
	sent, resp, err := a.commit(ctx, a.main, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return a.b.kv.Txn(ctx).
			If(untouched, nobodyBefore).
			Then(a.put(valueHeld, a.main)).
			Else(clientv3.OpGet(a.own),
				clientv3.OpGet(a.prefix, append(clientv3.WithLastCreate(), clientv3.WithKeysOnly(),
					clientv3.WithMaxCreateRev(a.rev-1))...)).
			Commit()
	})
	switch {
	case isLeaseNotFound(err):
		a.b.pool.drop(a.main)
		a.main = nil
		return nil, at, err
	case err != nil:
		return nil, at, err
	case resp.Succeeded:
		l, err = a.grant(ctx, grantedAt{sent, a.rev, resp.Header.Revision}, refreshed)
		return l, at, err
	}
	at.seen = resp.Header.Revision
	own := resp.Responses[0].GetResponseRange().Kvs
	switch {
	case len(own) == 0:
		a.losePlace()
		return nil, at, backend.ErrLost
	case own[0].Lease == a.main.id:
		l, err = a.grant(ctx, grantedAt{sent, a.rev, own[0].ModRevision}, refreshed)
		return l, at, err
	}
	if before := resp.Responses[1].GetResponseRange().Kvs; len(before) > 0 {
		at.before = string(before[0].Key)
	}
	return nil, at, nil
}

// losePlace forgets a place that is gone.
func (a *attempt) losePlace() {
	a.rev = 0
	if place := a.takePlace(); !contains(a.doubtful, place) {
		a.b.pool.drop(place)
	}
}

// await returns when the contender before may be gone.
func (a *attempt) await(ctx context.Context, at position) (position, error) {
	fired, created := make(chan struct{}), make(chan int64, 1)
	w := a.b.watches.add(at.before, func(from int64) { created <- from }, func() { close(fired) })
	defer a.b.watches.stop(w)
	look := time.NewTimer(recheck + rand.N(recheck/2))
	defer look.Stop()
	for {
		select {
		case <-fired:
			return position{seen: at.seen}, nil
		case <-a.place.gone:
			return position{}, nil // its being gone is found out by looking
		case <-ctx.Done():
			return at, backend.ContextError(ctx, nil)
		case from := <-created:
			if from <= at.seen {
				continue // nothing happened between the look and the watch
			}
		case <-look.C:
			look.Reset(recheck + rand.N(recheck/2))
		}
		both, err := a.bothThere(ctx, at.before)
		if err != nil {
			return at, err
		}
		if !both {
			return position{seen: at.seen}, nil
		}
	}
}

// bothThere looks whether the own place and the one before are still there.
func (a *attempt) bothThere(ctx context.Context, before string) (bool, error) {
	resp, err := a.b.read(ctx, clientv3.OpGet(a.own, clientv3.WithCountOnly()), clientv3.OpGet(before, clientv3.WithCountOnly()))
	if err != nil {
		return false, err
	}
	for _, r := range resp.Responses {
		if r.GetResponseRange().Count == 0 {
			return false, nil
		}
	}
	return true, nil
}
