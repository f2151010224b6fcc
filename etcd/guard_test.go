package etcd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/storetest"
)

// An emptyKV answers transactions as if there were no keys, but only while answers is set.
type emptyKV struct {
	clientv3.KV
	answers atomic.Bool
	asked   atomic.Int64
	most    atomic.Int64 // the most operations in one transaction
}

type emptyTxn struct {
	clientv3.Txn
	kv  *emptyKV
	ops int
}

func (k *emptyKV) Txn(context.Context) clientv3.Txn { return &emptyTxn{kv: k} }

func (x *emptyTxn) If(...clientv3.Cmp) clientv3.Txn { return x }

func (x *emptyTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	x.ops = len(ops)
	return x
}

func (x *emptyTxn) Commit() (*clientv3.TxnResponse, error) {
	x.kv.asked.Add(1)
	x.kv.most.Store(max(x.kv.most.Load(), int64(x.ops)))
	if !x.kv.answers.Load() {
		return nil, errNoAnswer
	}
	resp := &clientv3.TxnResponse{Header: &pb.ResponseHeader{Revision: 9}}
	for range x.ops {
		resp.Responses = append(resp.Responses,
			&pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{}}})
	}
	return resp, nil
}

// If the guard cannot read a key when the watch breaks, it repeats the read. It reports a deleted key as soon as the
// servers respond.
func TestLookThatFailedIsMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Backend, _ *silentLeases) {
		kv := &emptyKV{}
		b.kv = kv
		b.watches = newWatches(b, nil)
		b.watches.started = true // without a stream: they report nothing
		b.guard = newGuard(b)
		const ttl = time.Hour
		h := &boundKey{contender: contender{"k", 1}, modified: 1}
		l, err := b.leases.Grant(t.Context(), req("k", ttl), kit.Grant{Token: 1, Sent: time.Now(), TTL: ttl, Data: h})
		if err != nil {
			t.Fatal(err)
		}
		b.guard.start(l, h)
		time.Sleep(2 * guardAfter)
		for range 10 { // ten breaks of the stream
			b.guard.readSoon(h)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * time.Minute)
		if most := kv.most.Load(); most != 1 {
			t.Errorf("one look asks for the key %d times, want once", most)
		}
		kv.answers.Store(true)
		storetest.Lost(t, l, 2*recheck)
		synctest.Wait()
		asked := kv.asked.Load()
		time.Sleep(time.Minute)
		if more := kv.asked.Load() - asked; more != 0 {
			t.Errorf("asked for a lost key %d times more", more)
		}
	})
}

// If a server allows fewer operations per transaction than the guard has keys to read, the guard still finds every
// deleted key.
func TestGuardOfManyWhereFewOperationsAreAllowed(t *testing.T) {
	t.Parallel()
	s := private(t, "--max-txn-ops", "16")
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.via(p.Addr))
	const keys, gone = 40, 30
	var list []backend.Lease
	for i := range keys {
		key := fmt.Sprint("gone", i)
		if i >= gone {
			key = fmt.Sprint("stays", i)
		}
		list = append(list, acquire(t, b, req(key, time.Hour)))
	}
	until(t, soon, "all keys are watched", func() bool {
		b.watches.mu.Lock()
		defer b.watches.mu.Unlock()
		return len(b.watches.list) == keys
	})
	p.Refuse(true)
	p.Cut()
	resp, err := raw(t, s.Addr).Delete(t.Context(), s.namespace+"/"+nameMark+"gone", clientv3.WithPrefix())
	if err != nil || resp.Deleted != gone {
		t.Fatalf("deleted %v: %v", resp, err)
	}
	p.Refuse(false)
	for _, l := range list[:gone] {
		storetest.Lost(t, l, 3*soon)
	}
	for _, l := range list[gone:] {
		release(t, l)
	}
}
