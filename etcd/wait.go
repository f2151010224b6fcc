package etcd

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	// placeTTL is the longest TTL of a place in the queue: a dead waiter delays those behind it for so long. A lock
	// with a longer TTL changes its lease when it is granted, which costs a write.
	placeTTL = 30 * time.Second
	// recheck is how long a waiter relies on its watch before it reads the queue, with up to half as much again; and
	// how long a holder waits before it repeats a failed read of its key.
	recheck = 5 * time.Second
	// contention is how long a client that met a busy key expects others to be busy too.
	contention = time.Second
)

// A position is a waiter's place in the queue.
type position struct {
	predecessor contender // the nearest rival ahead; the zero contender if there may be none
	at          int64     // the revision at which that was so, or at which a predecessor was deleted; 0 if unknown
}

// tryInQueue makes requests until the key is granted or the attempt has a place behind a rival: then it returns
// ErrHeld. etcd orders the queue by the creation of the keys. An attempt that has lost its place, or its lease, queues
// again at the end.
//
// An exclusive request waits until nobody is ahead. Of those ahead it watches the nearest, then the nearest of those
// who remain: usually that one is the last to leave. A shared request waits for the exclusive ones ahead only.
func (a *attempt) tryInQueue(ctx context.Context) (backend.Lease, error) {
	pause := kit.Pause{Min: leastPause, Max: time.Second}
	for {
		l, err := a.step(ctx)
		lost := errors.Is(err, backend.ErrLost) || isLeaseNotFound(err)
		switch {
		case a.granted || errors.Is(err, backend.ErrHeld):
			return l, err
		case err == nil && a.place.predecessor.key == "":
			continue
		case err == nil:
			return nil, backend.ErrHeld
		}
		// Read the present next. At an old revision the place still exists, even if it has expired since: a process
		// that was frozen past its turn gets old events.
		a.place = position{}
		if lost {
			err = kit.Sleep(ctx, pause.Next(0))
		}
		if err != nil {
			return nil, err
		}
	}
}

// step makes one request for the key, and updates a.place. ErrHeld means that the next request must take a place.
//
// The first request only takes a free key, which is a shorter transaction, unless keys have been busy lately. So it
// does if a place needs another lease than the lock.
func (a *attempt) step(ctx context.Context) (backend.Lease, error) {
	switch {
	case a.created != 0:
		return a.checkTurn(ctx)
	case a.mustQueue || a.b.busyLately() && a.placeClass() == a.ttl:
		return a.enqueue(ctx)
	}
	l, err := a.try(ctx)
	if errors.Is(err, backend.ErrHeld) {
		a.mustQueue = true
	}
	return l, err
}

func (b *Backend) busyLately() bool {
	return time.Now().UnixNano()-b.lastBusy.Load() < int64(contention)
}

func (a *attempt) placeClass() time.Duration {
	return min(a.ttl, a.b.guarantees.Round(placeTTL))
}

// enqueue takes the key if it is free, otherwise a place in the queue.
func (a *attempt) enqueue(ctx context.Context) (backend.Lease, error) {
	l, busy, err := a.putIfFree(ctx, a.placeClass(), func() []clientv3.Op {
		return []clientv3.Op{
			// A delayed copy must not change the key.
			clientv3.OpTxn([]clientv3.Cmp{missing(a.key)}, []clientv3.Op{a.put()}, nil),
			clientv3.OpGet(a.key),
			a.rivals.get(clientv3.SortDescend, clientv3.WithLimit(2), clientv3.WithKeysOnly()),
		}
	})
	if busy == nil {
		return l, err
	}
	a.b.lastBusy.Store(time.Now().UnixNano())
	own, last := busy.keys(1)[0], busy.keys(2)
	a.created, a.modified = own.CreateRevision, own.ModRevision
	a.place = position{at: busy.Header.Revision}
	for _, rival := range last {
		if rival.CreateRevision < a.created { // not the attempt itself, nor one who has queued behind an earlier copy
			a.place.predecessor = contenderOf(rival)
			break
		}
	}
	return nil, nil
}

// checkTurn takes the key if there is no predecessor; otherwise it updates a.place.
//
// It reads the queue at the revision a.place.at. Nobody enters the queue before an existing place, so whoever has no
// rival ahead at one revision has none at all later ones, as long as the place exists. The client knows when the
// place's lease ends.
func (a *attempt) checkTurn(ctx context.Context) (backend.Lease, error) {
	refreshed := a.refreshStale(ctx)
	sent := time.Now()
	resp, err := a.b.readAt(ctx, a.place.at,
		clientv3.OpGet(a.key),
		a.rivals.get(clientv3.SortDescend, clientv3.WithLimit(1), clientv3.WithKeysOnly(),
			clientv3.WithMaxCreateRev(a.created-1)))
	if err != nil {
		return nil, err
	}
	a.place = position{at: cmp.Or(a.place.at, resp.Header.Revision)}
	own, before := resp.Responses[0].GetResponseRange().Kvs, resp.Responses[1].GetResponseRange().Kvs
	switch {
	case !(contender{a.key, a.created}).isIn(own):
		a.b.pool.revokeLater(a.lease)
		a.lease, a.created = nil, 0
		return nil, backend.ErrLost
	case len(before) > 0:
		a.place.predecessor = contenderOf(before[0])
		return nil, nil
	}
	return a.grant(ctx, found(sent, own[0]), refreshed)
}

// awaitTurn returns when the predecessor may be gone.
func (a *attempt) awaitTurn(ctx context.Context) error {
	if a.place.predecessor.key == "" { // no place yet
		return nil
	}
	deleted, err := a.watchPredecessor(ctx, a.place)
	a.place = position{at: deleted}
	if err != nil {
		a.place = position{}
	}
	if errors.Is(err, backend.ErrLost) || isLeaseNotFound(err) {
		return nil // the next request finds out whether the place still exists
	}
	return err
}

// watchPredecessor returns when the predecessor, or the waiter's own place, may be gone. deletedAt is the revision at
// which the predecessor was gone, 0 if unknown. Meanwhile watchPredecessor renews the lease of the place.
func (a *attempt) watchPredecessor(ctx context.Context, p position) (deletedAt int64, err error) {
	deleted, created := make(chan int64, 1), make(chan int64, 1)
	w := a.b.watches.add(&watch{of: p.predecessor, created: func(from int64) {
		select {
		case <-created: // replaced by this one
		default:
		}
		created <- from
	}, deleted: func(at int64) { deleted <- at }})
	defer a.b.watches.stop(w)
	reread := time.NewTimer(recheck + rand.N(recheck/2))
	defer reread.Stop()
	renewal := time.NewTimer(a.untilRenewal())
	defer renewal.Stop()
	for {
		var at int64
		list := []contender{p.predecessor}
		select {
		case at := <-deleted:
			return at, nil
		case <-a.lease.ended:
			return 0, backend.ErrLost
		case <-ctx.Done():
			return 0, kit.ContextError(ctx, nil)
		case <-renewal.C:
			if err := a.renewPlace(ctx); err != nil {
				return 0, err
			}
			renewal.Reset(a.untilRenewal())
			continue
		case at = <-created:
			if at != 0 && at <= p.at {
				continue // the predecessor was read at a later revision than the watch began at
			}
		case <-reread.C:
			list = append(list, contender{a.key, a.created})
			reread.Reset(recheck + rand.N(recheck/2))
		}
		if writes, _, err := a.b.lastWrites(ctx, at, list...); err != nil || slices.Contains(writes, 0) {
			return at, err
		}
	}
}

// untilRenewal returns in how long renewPlace is due: after a third of the TTL, after a failure sooner.
func (a *attempt) untilRenewal() time.Duration {
	third := a.lease.ttl / 3
	a.b.pool.mu.Lock()
	defer a.b.pool.mu.Unlock()
	return max(time.Until(a.lease.renewed.Add(third-rand.N(third/8))), third/4)
}

// renewPlace renews the lease of the place. Through a proxy, which does not renew leases reliably, renewPlace binds the
// place to a new lease instead; ErrLost then means that the place is gone.
func (a *attempt) renewPlace(ctx context.Context) error {
	p := a.b.pool
	if !a.b.proxied.Load() {
		if err := p.renew(ctx, p.patience(a.lease), a.lease)[0]; !errors.Is(err, errThroughProxy) {
			return nil // a failed renewal is soon repeated; the end of the lease is noticed by its channel
		}
	}
	return a.move(ctx, a.lockedKey(a.created, a.modified), a.lease.class)
}
