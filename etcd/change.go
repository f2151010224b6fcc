package etcd

import (
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
)

// A change binds the key of a lock to another lease: etcd cannot change a lease's TTL, and no lock stays on a lease that an earlier leader
// knows. The key stays, and so its revision of creation, the token.
type change struct {
	h     *held // whose lock the caller holds
	owner string
	ttl   time.Duration
	to    *lease
	err   error
}

// changesPerRequest is how many keys change in one transaction. Servers allow 128 operations, those of inner transactions included.
const changesPerRequest = 64

// changeLives changes as many as one request can.
func (b *Backend) changeLives(ctx context.Context, lives []*backend.Life, ttls []time.Duration) []error {
	errs, made := make([]error, len(lives)), make([]*change, len(lives))
	var list []*change
	for i, l := range lives {
		h := l.Data.(*held)
		if !h.mu.TryLock() {
			errs[i] = errReleasing
			continue
		}
		defer h.mu.Unlock()
		if h.main == nil {
			errs[i] = backend.ErrLost
			continue
		}
		made[i] = &change{h: h, owner: l.Owner(), ttl: ttls[i]}
		list = append(list, made[i])
	}
	b.changeAll(ctx, list)
	for i, c := range made {
		if c != nil {
			errs[i] = c.err
		}
	}
	return errs
}

// changeAll takes a new lease for each lock, all at once, and binds their keys in one transaction.
func (b *Backend) changeAll(ctx context.Context, list []*change) {
	var taking sync.WaitGroup
	for _, c := range list {
		taking.Go(func() { c.to, c.err = b.pool.takeNew(ctx, c.ttl) })
	}
	taking.Wait()
	var taken []*change
	for _, c := range list {
		if c.err == nil {
			taken = append(taken, c)
		}
	}
	const copies = 3 // of answers that told of an earlier, unanswered change
	for range copies {
		if len(taken) > 0 {
			taken = b.bind(ctx, taken)
		}
	}
}

// bind makes the transaction, and returns those changes that found that an earlier one has been carried out: they are to be made again.
func (b *Backend) bind(ctx context.Context, list []*change) (again []*change) {
	ops := make([]clientv3.Op, len(list))
	for i, c := range list {
		key := c.h.own.key
		ops[i] = clientv3.OpTxn(
			// A change that comes late finds that the key was written since.
			[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", c.h.mod)},
			[]clientv3.Op{clientv3.OpPut(key, c.owner, clientv3.WithLease(clientv3.LeaseID(c.to.id)))},
			[]clientv3.Op{clientv3.OpGet(key)})
	}
	var resp *clientv3.TxnResponse
	unanswered, err := b.repeat(ctx, b.options.Timeout, func(ctx context.Context) (err error) {
		resp, err = b.kv.Txn(ctx).Then(ops...).Commit()
		return err
	})
	for i, c := range list {
		if unanswered && !slices.Contains(c.h.doubtful, c.to) {
			c.h.doubtful = append(c.h.doubtful, c.to)
		}
		if c.err = err; err != nil {
			if len(list) > 1 && !uncertain(err) { // one of the leases is gone, or the server allows fewer operations
				again = append(again, b.bind(ctx, list[i:i+1])...)
			} else if !slices.Contains(c.h.doubtful, c.to) {
				b.pool.drop(c.to)
			}
			continue
		}
		txn := resp.Responses[i].GetResponseTxn()
		if txn.Succeeded {
			c.h.mod = resp.Header.Revision
			b.settle(c.h, c.to)
			continue
		}
		kvs := txn.Responses[0].GetResponseRange().Kvs
		if !c.h.own.isThere(kvs) {
			c.err = backend.ErrLost
			b.pool.drop(c.to)
			continue
		}
		if c.h.mod = kvs[0].ModRevision; kvs[0].Lease == c.to.id {
			b.settle(c.h, c.to)
			continue
		}
		c.err = errNoAnswer
		again = append(again, c)
	}
	return again
}

// settle makes to the lease of h, and lets the others go. The caller holds h.mu.
func (b *Backend) settle(h *held, to *lease) {
	if h.unsure {
		b.pool.drop(h.main)
	} else {
		b.pool.put(h.main)
	}
	for _, l := range h.doubtful {
		if l != to {
			b.pool.drop(l)
		}
	}
	h.main, h.doubtful = to, nil
}
