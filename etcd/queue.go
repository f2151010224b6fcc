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
	"github.com/anylock/lock/backend/kit"
)

const (
	// placeTTL is the longest TTL of a place in the queue: for so long a waiter that died delays those behind it. A lock
	// with a longer one changes its lease when it is granted, which costs a write.
	placeTTL = 30 * time.Second
	// recheck is how long a waiter trusts the silence of its watch, with up to half as much again; and how long a holder waits with
	// another look for its key where one has failed.
	recheck = 5 * time.Second
)

// A position is what a waiter knows of its place in the queue.
type position struct {
	before contender // empty when there may be none
	seen   int64     // the revision at which that was so, or at which the one before was deleted; 0 if not known
}

// queue asks for the key, or for its turn in the queue, which etcd orders by when the owners' keys were created. It
// returns ErrHeld once it has a place behind others. If its place is gone, or a lease for the lock, it queues again at
// the end.
func (a *attempt) queue(ctx context.Context) (backend.Lease, error) {
	pause := kit.Pause{Min: leastPause, Max: time.Second}
	for {
		l, err := a.step(ctx)
		gone := errors.Is(err, backend.ErrLost) || isLeaseNotFound(err)
		switch {
		case err == nil && l != nil:
			return l, nil
		case err == nil && a.at.before.key == "":
			continue
		case err == nil:
			return nil, backend.ErrHeld
		case a.granted: // and given back, which would meet what this owner is granted from now on
			return nil, err
		}
		// At the revision looked at the place was still there, and so it would be for ever: to a process that was
		// frozen past its turn, events come as late as this.
		a.at = position{}
		if gone {
			if err = kit.Sleep(ctx, pause.Next(0)); err == nil {
				continue
			}
		}
		return nil, err
	}
}

// step makes one request for the key, and enters in a.at what it finds.
func (a *attempt) step(ctx context.Context) (l backend.Lease, err error) {
	switch {
	case !a.entered:
		l, a.at, err = a.enter(ctx)
		a.entered = err == nil || isLeaseNotFound(err)
	case a.rev == 0:
		l, a.at, err = a.enqueue(ctx)
	default:
		l, a.at, err = a.promote(ctx, a.at.seen)
	}
	return l, err
}

// lastRefusal returns the refusal that the Waiter does not know of, nil if there is none.
func (a *attempt) lastRefusal() error {
	busy := a.busy
	a.busy = nil
	return busy
}

// enter makes the first request. Where keys have been busy lately, one transaction takes the key or a place in the queue,
// whatever is there; otherwise the shorter one that takes a free key goes first, and so it does where a place needs another lease.
func (a *attempt) enter(ctx context.Context) (backend.Lease, position, error) {
	if !a.b.waitedLately() || a.placeClass() != a.ttl {
		l, err := a.try(ctx)
		if err == nil || !errors.Is(err, backend.ErrHeld) {
			return l, position{}, err
		}
		a.busy, a.entered = err, true
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
	if err := a.take(ctx, a.placeClass()); err != nil {
		return nil, at, err
	}
	refreshed := a.refreshStale(ctx)
	missing := clientv3.Compare(clientv3.CreateRevision(a.own), "=", 0)
	sent, resp, err := a.commit(ctx, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return a.b.kv.Txn(ctx).
			If(a.isFree()).
			Then(a.put()).
			// A copy of this request that comes late must not touch what is there by then.
			Else(clientv3.OpTxn([]clientv3.Cmp{missing}, []clientv3.Op{a.put()}, nil),
				clientv3.OpGet(a.own),
				clientv3.OpGet(a.prefix, clientv3.WithPrefix(), clientv3.WithLimit(2), clientv3.WithKeysOnly(),
					clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend))).
			Commit()
	})
	switch {
	case isLeaseNotFound(err):
		a.b.pool.drop(a.lease)
		a.lease = nil
		return nil, at, err
	case err != nil:
		return nil, at, err
	case resp.Succeeded:
		l, err = a.grant(ctx, a.written(sent, resp), refreshed)
		return l, at, err
	}
	own := resp.Responses[1].GetResponseRange().Kvs[0]
	a.rev, a.mod = own.CreateRevision, own.ModRevision
	a.b.pool.keep(ctx, a.lease)
	at.seen = resp.Header.Revision
	if last := resp.Responses[2].GetResponseRange().Kvs; len(last) == 2 && string(last[0].Key) == a.own {
		a.behind(&at, last[1])
	}
	return nil, at, nil
}

// behind enters whom the servers have told to be before.
func (a *attempt) behind(at *position, before *mvccpb.KeyValue) {
	at.before = contender{string(before.Key), before.CreateRevision}
}

// promote takes the key if nobody is before, and tells who is otherwise.
//
// It looks at the queue as it was at the revision since, 0 for the present. Nobody comes in before a place that is there:
// who is first at a revision is first from then on. And the place lives as long as its lease, whose end the client knows.
func (a *attempt) promote(ctx context.Context, since int64) (l backend.Lease, at position, err error) {
	refreshed := a.refreshStale(ctx)
	sent := time.Now()
	resp, err := a.b.readAt(ctx, since,
		clientv3.OpGet(a.own),
		clientv3.OpGet(a.prefix, append(clientv3.WithLastCreate(), clientv3.WithKeysOnly(), clientv3.WithMaxCreateRev(a.rev-1))...))
	if err != nil {
		return nil, at, err
	}
	if at.seen = resp.Header.Revision; since > 0 {
		at.seen = since
	}
	own, before := resp.Responses[0].GetResponseRange().Kvs, resp.Responses[1].GetResponseRange().Kvs
	switch {
	case !(contender{a.own, a.rev}).isThere(own):
		a.losePlace()
		return nil, at, backend.ErrLost
	case len(before) > 0:
		a.behind(&at, before[0])
		return nil, at, nil
	}
	l, err = a.grant(ctx, found(sent, own[0]), refreshed)
	return l, at, err
}

// losePlace forgets a place that is gone.
func (a *attempt) losePlace() {
	a.b.pool.drop(a.lease)
	a.lease, a.rev = nil, 0
}

// await returns when the contender before may be gone.
func (a *attempt) await(ctx context.Context) error {
	at, err := a.watchAhead(ctx, a.at)
	if a.at = at; errors.Is(err, backend.ErrLost) || isLeaseNotFound(err) {
		a.at, err = position{}, nil // what there is, queue finds out
	}
	if err != nil {
		a.at.seen = 0
	}
	return err
}

func (a *attempt) watchAhead(ctx context.Context, at position) (position, error) {
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
	expiring, stop := a.placeExpires()
	defer func() { stop() }()
	for {
		var since int64
		list := []contender{at.before}
		select {
		case deleted := <-gone:
			return position{seen: deleted}, nil
		case <-a.lease.gone:
			return position{}, backend.ErrLost // what became of the place is found out by looking, not without a pause
		case <-ctx.Done():
			return at, kit.ContextError(ctx, nil)
		case <-expiring:
			if err := a.renewPlace(ctx); err != nil {
				return at, err
			}
			expiring, stop = a.placeExpires()
			continue
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
