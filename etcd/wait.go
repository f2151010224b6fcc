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
	// placeTTL is the longest TTL of a place in the queue, because a dead waiter delays those behind it for that long. A
	// lock with a longer TTL changes its lease when it is granted, which costs a write.
	placeTTL = 30 * time.Second
	// recheck is how long a waiter relies on its watch before it reads the queue, with up to half as much again. It is
	// also how long a holder waits before it repeats a failed read of its key.
	recheck = 5 * time.Second
	// busyPeriod is how long a client that found a key busy expects other keys to be busy, too.
	busyPeriod = time.Second
)

// A position is a waiter's place in the queue.
type position struct {
	predecessor contender // the nearest rival ahead; zero if there may be none
	at          int64     // the revision at which it was read, or at which the last predecessor was deleted; 0 if unknown
}

// tryInQueue makes requests until the key is granted. It returns ErrHeld once the attempt is queued behind a rival, or
// its first request found the key busy. etcd orders the queue by the creation of the keys. An attempt that has lost its
// place queues again at the end.
//
// An exclusive request waits until nobody is ahead. It watches the nearest contender ahead, then the nearest of those
// that remain: usually, the nearest is the last to release the key. A shared request waits only for the exclusive
// contenders ahead.
func (a *attempt) tryInQueue(ctx context.Context) (backend.Lease, error) {
	pause := kit.Pause{Min: leastPause, Max: time.Second}
	for {
		l, err := a.requestKey(ctx)
		switch {
		case a.granted || errors.Is(err, backend.ErrHeld):
			return l, err
		case err == nil:
			continue
		}
		// Read the present next. At an old revision the place still exists, even if it has expired since. A process that was
		// frozen past its turn receives old events.
		a.place = position{}
		if errors.Is(err, backend.ErrLost) {
			err = kit.Sleep(ctx, pause.Next(0))
		}
		if err != nil {
			return nil, err
		}
	}
}

// requestKey makes one request for the key, and updates a.place. ErrHeld means that a rival is ahead. Neither a lease
// nor an error means that no rival is ahead: the next request is granted the key.
//
// If no key has been busy lately, the first request does not queue, because its transaction is then shorter. It does
// not queue either if a place needs a different lease than the lock.
func (a *attempt) requestKey(ctx context.Context) (backend.Lease, error) {
	switch {
	case a.contender.created != 0:
		return a.checkTurn(ctx)
	case a.mustQueue || a.b.busyLately() && a.placeLockTTL() == a.ttl:
		return a.enqueue(ctx)
	}
	l, err := a.try(ctx)
	if errors.Is(err, backend.ErrHeld) {
		a.mustQueue = true
	}
	return l, err
}

func (b *Backend) busyLately() bool {
	return time.Now().UnixNano()-b.lastBusy.Load() < int64(busyPeriod)
}

func (a *attempt) placeLockTTL() time.Duration {
	return min(a.ttl, a.b.guarantees.Round(placeTTL))
}

// enqueue acquires the key if it is free, and otherwise joins the queue.
//
// From now on every request joins the queue, because a request without a reply may have put the owner's key behind a
// rival's. try would treat that key as if no rival had been ahead of it.
func (a *attempt) enqueue(ctx context.Context) (backend.Lease, error) {
	a.mustQueue = true
	l, busy, err := a.putIfFree(ctx, a.placeLockTTL(), func() []clientv3.Op {
		return []clientv3.Op{
			// A delayed copy must not change the key.
			clientv3.OpTxn([]clientv3.Cmp{createdAt(a.contender.key, 0)}, []clientv3.Op{a.put()}, nil),
			clientv3.OpGet(a.contender.key),
			a.rivals.get(clientv3.SortDescend, clientv3.WithLimit(2), clientv3.WithKeysOnly()),
		}
	})
	if busy == nil {
		return l, err
	}
	a.b.lastBusy.Store(time.Now().UnixNano())
	own, last := keysRead(busy, 1)[0], keysRead(busy, 2)
	a.contender.created, a.modified = own.CreateRevision, own.ModRevision
	a.place = position{at: busy.Header.Revision}
	for _, rival := range last {
		if rival.CreateRevision < a.contender.created { // not this attempt, nor a rival behind an earlier copy of it
			a.place.predecessor = contenderOf(rival)
			return nil, backend.ErrHeld
		}
	}
	return nil, nil
}

// checkTurn acquires the key if there is no predecessor; otherwise it updates a.place.
//
// It reads the queue at the revision a.place.at. Nobody can queue ahead of an existing place. So if no rival is ahead
// at one revision, none is ahead at any later revision, as long as the place exists. The client knows when the place's
// lease ends.
func (a *attempt) checkTurn(ctx context.Context) (backend.Lease, error) {
	a.refreshStale(ctx)
	a.sent = time.Now()
	resp, err := a.b.readAt(ctx, a.place.at,
		clientv3.OpGet(a.contender.key),
		a.rivals.get(clientv3.SortDescend, clientv3.WithLimit(1), clientv3.WithKeysOnly(),
			clientv3.WithMaxCreateRev(a.contender.created-1)))
	switch {
	case err != nil:
		return nil, err
	case resp.Header.Revision < a.contender.created: // a stale read (see version.go), or the store has lost its data
		return nil, cmp.Or(a.renewPlace(ctx), errNoAnswer)
	}
	a.place = position{at: cmp.Or(a.place.at, resp.Header.Revision)}
	own, before := keysRead(resp, 0), keysRead(resp, 1)
	switch {
	case !a.contender.isIn(own):
		a.b.pool.revokeLater(a.lease)
		a.lease, a.contender.created = nil, 0
		return nil, backend.ErrLost
	case len(before) > 0:
		a.place.predecessor = contenderOf(before[0])
		return nil, backend.ErrHeld
	}
	return a.grant(ctx, own[0].CreateRevision, own[0].ModRevision, own[0].Lease)
}

// awaitTurn waits until the predecessor may have been deleted.
func (a *attempt) awaitTurn(ctx context.Context) error {
	if a.place.predecessor.key == "" { // no place yet
		return nil
	}
	deleted, err := a.watchPredecessor(ctx, a.place)
	a.place = position{at: deleted}
	if errors.Is(err, backend.ErrLost) {
		return nil // the next request checks whether the place still exists
	}
	return err
}

// watchPredecessor waits until the predecessor, or the waiter's own place, may have been deleted. Meanwhile it renews
// the lease of the place. deletedAt is a revision at which the predecessor was deleted, 0 if unknown.
func (a *attempt) watchPredecessor(ctx context.Context, p position) (deletedAt int64, err error) {
	deleted, created := make(chan int64, 1), make(chan int64, 1)
	w := a.b.watches.add(&watch{contender: p.predecessor, created: func(from int64) {
		select {
		case <-created: // replaced by from
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
				continue // the predecessor was read at or after the revision at which the watch began
			}
		case <-reread.C:
			list = append(list, a.contender)
			reread.Reset(recheck + rand.N(recheck/2))
		}
		switch writes, err := a.b.lastWrites(ctx, at, list...); {
		case err != nil:
			return 0, err
		case slices.Contains(writes, 0):
			return at, nil
		}
	}
}

// untilRenewal returns the time until renewPlace is due: a third of the TTL after a renewal, less after a failure.
func (a *attempt) untilRenewal() time.Duration {
	third := a.lease.ttl / 3
	return max(time.Until(a.b.pool.state(a.lease).renewed.Add(third-rand.N(third/8))), third/4)
}

// renewPlace renews the lease of the place. Like a held lock, the place moves to another lease if its own has ended.
// ErrLost means that the place is lost.
func (a *attempt) renewPlace(ctx context.Context) error {
	p := a.b.pool
	if err := p.renew(ctx, p.patience(a.lease), a.lease)[0]; errors.Is(err, backend.ErrLost) {
		return a.move(ctx, a.lease.lockTTL)
	}
	return nil // a failed renewal is soon repeated
}
