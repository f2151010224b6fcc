package etcd

import (
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
)

// An extension gives a lock more time: the renewal of its lease, or a change, which binds its key to another lease. etcd cannot change a
// lease's TTL, and no lock stays on a lease that an earlier leader knows. The key stays, and so its revision of creation, the
// token.
type extension struct {
	h     *held // whose lock the caller of a change holds
	owner string
	ttl   time.Duration
	main  *lease // to renew
	to    *lease // to change to
	err   error
}

// changesPerRequest is how many keys change in one transaction. Servers allow 128 operations, those of inner transactions included.
const changesPerRequest = 64

// changeAll takes a new lease for each lock, all at once, and binds their keys in one transaction.
func (b *Backend) changeAll(ctx context.Context, list []*extension) {
	var taking sync.WaitGroup
	for _, c := range list {
		taking.Go(func() { c.to, c.err = b.pool.takeNew(ctx, c.ttl) })
	}
	taking.Wait()
	var taken []*extension
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
func (b *Backend) bind(ctx context.Context, list []*extension) (again []*extension) {
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
	unanswered, err := b.repeat(ctx, func(ctx context.Context) (err error) {
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
			b.dropHeld(c.h)
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
