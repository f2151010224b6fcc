package etcd

import (
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
)

// An extension extends a lock, either by renewing its lease or by a move, which binds the key to another lease. A move
// is needed because etcd cannot change a lease's TTL, and because no lock stays on a lease that an earlier leader
// knows. A move keeps the key and its creation revision, which is the token.
type extension struct {
	key   *boundKey // the caller of move owns key, or has locked key.mu
	owner string
	ttl   time.Duration
	from  *lease // to renew
	to    *lease // to move to
	// Another client's lease, to which a Resume, or a request before it, has bound the key. The lease is revoked after the
	// move, so that the other client's next renewal moves the key in turn.
	foreign *lease
	err     error
}

// keysPerRequest is how many keys one request reads or binds. Servers allow 128 operations, including those of nested
// transactions.
const keysPerRequest = 64

// move requests a new lease for each lock, all concurrently, and binds the keys in one transaction.
func (b *Backend) move(ctx context.Context, list []*extension) {
	var leases sync.WaitGroup
	for _, e := range list {
		leases.Go(func() { e.to, e.err = b.pool.grant(ctx, e.ttl) })
	}
	leases.Wait()
	remaining := slices.DeleteFunc(slices.Clone(list), func(e *extension) bool { return e.err != nil })
	const attempts = 3 // a reply may report an earlier move, which got no reply
	for n := 0; n < attempts && len(remaining) > 0; n++ {
		remaining = b.bind(ctx, remaining)
	}
	for _, e := range remaining { // no transaction has bound the key to e.to, or can any more
		b.pool.revokeLater(e.to)
	}
}

// bind sends the transaction. It returns the extensions to repeat: those whose key changed since k.modified.
func (b *Backend) bind(ctx context.Context, list []*extension) (again []*extension) {
	ops := make([]clientv3.Op, len(list))
	for i, e := range list {
		key := e.key.contender.key
		ops[i] = clientv3.OpTxn(
			// A delayed write fails because the key has changed since.
			[]clientv3.Cmp{unmodified(key, e.key.modified)},
			[]clientv3.Op{clientv3.OpPut(key, e.owner, clientv3.WithLease(clientv3.LeaseID(e.to.id)))},
			[]clientv3.Op{clientv3.OpGet(key)})
	}
	resp, unsure, err := b.commit(ctx, nil, ops...)
	for i, e := range list {
		k := e.key
		if unsure && !slices.Contains(k.unconfirmed, e.to) {
			k.unconfirmed = append(k.unconfirmed, e.to)
		}
		if e.err = err; err != nil {
			if isLeaseNotFound(err) { // the process was frozen meanwhile; another move uses another lease
				e.err = errNoAnswer
			}
			if len(list) > 1 && !mayHaveRun(err) { // a lease has ended, or the server allows fewer operations
				again = append(again, b.bind(ctx, list[i:i+1])...)
			} else if !slices.Contains(k.unconfirmed, e.to) {
				b.pool.revokeLater(e.to)
			}
			continue
		}
		txn := resp.Responses[i].GetResponseTxn()
		if txn.Succeeded {
			k.modified = resp.Header.Revision
			b.finishMove(e)
			continue
		}
		kvs := txn.Responses[0].GetResponseRange().Kvs
		if !k.contender.isIn(kvs) {
			e.err = backend.ErrLost
			b.pool.revokeLater(e.to)
			b.dropLeases(k)
			continue
		}
		if k.modified = kvs[0].ModRevision; kvs[0].Lease == e.to.id {
			b.finishMove(e)
			continue
		}
		if e.foreign = nil; !k.mayBeBoundTo(kvs[0].Lease) {
			e.foreign = &lease{id: kvs[0].Lease}
		}
		e.err = errNoAnswer
		again = append(again, e)
	}
	return again
}

// mayBeBoundTo reports whether a request of this client may have bound the key to a lease. The caller has locked k.mu.
func (k *boundKey) mayBeBoundTo(id int64) bool {
	return slices.ContainsFunc(append(k.unconfirmed, k.lease), func(l *lease) bool { return l != nil && l.id == id })
}

// finishMove makes e.to the lease of the key, and returns the other leases to the pool or revokes them. The caller has
// locked k.mu.
func (b *Backend) finishMove(e *extension) {
	k := e.key
	if k.unsure || e.foreign != nil { // the client that bound the key to its lease may be about to revoke k.lease
		b.pool.revokeLater(k.lease, e.foreign)
	} else {
		b.pool.checkIn(k.lease)
	}
	b.pool.revokeLater(slices.DeleteFunc(k.unconfirmed, func(l *lease) bool { return l == e.to })...)
	k.lease, k.unconfirmed = e.to, nil
}
