package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/storetest"
)

// manyChanges returns renewals. The last one keeps the TTL, and so the lease, of the lock kept. All others change their
// TTL, and are more than one transaction can move.
func manyChanges(t *testing.T, b *Backend) (list []backend.Renewal, kept backend.Lease) {
	t.Helper()
	const ttl, other = 30 * time.Second, 20 * time.Second
	for i := range 2*keysPerRequest + 4 {
		list = append(list, backend.Renewal{Lease: acquire(t, b, req(fmt.Sprint("k", i), ttl)), TTL: other})
	}
	kept = acquire(t, b, req("kept", ttl))
	return append(list, backend.Renewal{Lease: kept, TTL: ttl}), kept
}

// If a batch times out before its messages reach the server, no renewal is reported as successful, and a lease that
// keeps its TTL keeps its deadline. Otherwise a holder would rely on a lease that the server ends.
func TestBatchTellsOnlyOfWhatWasRenewed(t *testing.T) {
	t.Parallel()
	s := shared(t)
	p := storetest.NewProxy(t, s.Addr)
	b := opened(t, s.via(p.Addr))
	list, kept := manyChanges(t, b)
	before := kept.Deadline()
	p.Set(func(p *storetest.Proxy) { p.Silent = true })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for i, err := range b.RenewBatch(ctx, list) {
		if err == nil {
			t.Errorf("renewal %d of %d succeeded although the server got none", i, len(list))
		}
	}
	if now := kept.Deadline(); now.After(before) {
		t.Errorf("a deadline was moved by %v", now.Sub(before))
	}
	p.Set(func(p *storetest.Proxy) { p.Silent = false })
	p.Cut()
}

// If the context has ended before anything is sent, for example after a freeze of the process, no renewal is reported
// as successful.
func TestBatchThatCameTooLateIsNotSent(t *testing.T) {
	t.Parallel()
	b := opened(t, shared(t).URL())
	l := acquire(t, b, req("k", 30*time.Second)).(*kit.Life)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, errs := b.extend(ctx, []*kit.Life{l}, []time.Duration{30 * time.Second})
	if errs[0] == nil {
		t.Error("a renewal succeeded that was not sent")
	}
}

// A renewal moves a lock whose lease a new leader has renewed, alone and in a batch, and keeps the key and its token.
// TestNewLeaderNewLease tests this with a real change of leader.
func TestRenewalLeavesStaleLease(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	b := opened(t, s.URL())
	const ttl = 30 * time.Second
	for name, renew := range map[string]func(l backend.Lease) error{
		"alone": func(l backend.Lease) error { return l.Renew(t.Context(), ttl) },
		"batch": func(l backend.Lease) error {
			return b.RenewBatch(t.Context(), []backend.Renewal{{Lease: l, TTL: ttl}})[0]
		},
	} {
		r := req(name, ttl)
		l := acquire(t, b, r)
		own := ownKey(t, c, r.Owner)
		was, stale := get(t, c, own), leaseOf(l)
		b.pool.mu.Lock()
		stale.stale = true
		b.pool.mu.Unlock()
		if err := renew(l); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if now := get(t, c, own); now.Lease == was.Lease || now.CreateRevision != was.CreateRevision {
			t.Errorf("%s: the key is %+v, was %+v", name, now, was)
		}
		until(t, soon, "the stale lease is revoked", func() bool { return isGone(t, c, clientv3.LeaseID(stale.id)) })
		release(t, l)
	}
}

// hangingGrants answers no grant while hangs is set.
type hangingGrants struct {
	pb.LeaseClient
	hangs atomic.Bool
}

func (c *hangingGrants) LeaseGrant(
	ctx context.Context, r *pb.LeaseGrantRequest, opts ...grpc.CallOption,
) (*pb.LeaseGrantResponse, error) {
	if !c.hangs.Load() {
		return c.LeaseClient.LeaseGrant(ctx, r, opts...)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// In a batch, leases that keep their TTL are renewed at once, even if the moves of the others use up the time limit.
func TestKeptLeasesDoNotWaitForChanges(t *testing.T) {
	t.Parallel()
	b, _ := wired(t, shared(t))
	grants := &hangingGrants{LeaseClient: b.leaseClient}
	b.leaseClient = grants
	list, kept := manyChanges(t, b)
	grants.hangs.Store(true)
	const patience = 4 * time.Second
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	errs := b.RenewBatch(ctx, list)
	if last := len(errs) - 1; errs[0] == nil || errs[last] != nil {
		t.Errorf("a change without an answer: %v; a renewal: %v", errs[0], errs[last])
	}
	main := kept.(*kit.Life).Data.(*boundKey).lease
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if took := main.renewed.Sub(begun); took < 0 || took > patience*3/4 {
		t.Errorf("renewed after %v", took)
	}
}

// In a batch, leases whose TTL changes move even if the stream for renewals hangs.
func TestChangesDoNotWaitForKeptLeases(t *testing.T) {
	t.Parallel()
	b, _ := wired(t, shared(t))
	const ttl, other = 30 * time.Second, 20 * time.Second
	changing, kept := acquire(t, b, req("changing", ttl)), acquire(t, b, req("kept", ttl))
	b.renewer = newRenewer(&silentLeases{}, b.leases)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	errs := b.RenewBatch(ctx, []backend.Renewal{{Lease: kept, TTL: ttl}, {Lease: changing, TTL: other}})
	if errs[0] == nil || errs[1] != nil {
		t.Errorf("a renewal without an answer: %v; a change: %v", errs[0], errs[1])
	}
}

// A batch repeats unanswered renewals on new streams, which may reach other servers. However long the TTL, each stream
// gets no more time than a request.
func TestBatchTriesOtherStreams(t *testing.T) {
	inBubble(t, func(t *testing.T, b *Backend, c *silentLeases) {
		const ttl, rounds = time.Hour, 4
		l, err := b.leases.Grant(t.Context(), req("k", ttl), kit.Grant{Token: 1, Sent: time.Now(), TTL: ttl,
			Data: &boundKey{lease: &lease{id: 1, lockTTL: ttl, ttl: ttl + extraTTL}}})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		errs := b.RenewBatch(t.Context(), []backend.Renewal{{Lease: l, TTL: ttl}})
		if !errors.Is(errs[0], errNoAnswer) {
			t.Error(errs[0])
		}
		if took := time.Since(begun); took > rounds*b.options.Timeout {
			t.Errorf("took %v", took)
		}
		if n := c.sent.Load(); n != rounds {
			t.Errorf("sent %d times, want %d", n, rounds)
		}
	})
}

// hangingDeletes calls begun for each delete, and sends the delete only after goOn is closed.
type hangingDeletes struct {
	pb.KVClient
	begun func()
	goOn  chan struct{}
}

func (c *hangingDeletes) Txn(ctx context.Context, r *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	if !deletes(r) {
		return c.KVClient.Txn(ctx, r, opts...)
	}
	c.begun()
	select {
	case <-c.goOn:
		return c.KVClient.Txn(ctx, r, opts...)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A release that hangs does not delay renewals. Another lock is renewed. Renewals of the lock that is being released
// fail during the release.
func TestRenewalsDoNotWaitForARelease(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}, Logger: zap.NewNop(), DialTimeout: soon})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	b, err := onClient(c, s.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	begun := make(chan struct{})
	deletes := &hangingDeletes{KVClient: pb.NewKVClient(c.ActiveConnection()),
		begun: sync.OnceFunc(func() { close(begun) }), goOn: make(chan struct{})}
	b.kv = clientv3.NewKVFromKVClient(deletes, c)
	const ttl, other = 30 * time.Second, 20 * time.Second
	ending, kept := acquire(t, b, req("ending", ttl)).(*kit.Life), acquire(t, b, req("kept", ttl)).(*kit.Life)
	released := make(chan error, 1)
	go func() { released <- ending.Release(context.Background()) }()
	<-begun
	_, errs := b.extend(t.Context(), []*kit.Life{ending, kept}, []time.Duration{ttl, ttl})
	if errs[0] == nil || errs[1] != nil {
		t.Errorf("renewals beside a release that hangs: of its own lease %v, of another %v", errs[0], errs[1])
	}
	for _, ttl := range []time.Duration{ttl, other} {
		if _, err := (requests{b}).RenewLease(t.Context(), ending, ttl); err == nil {
			t.Error("a lease was renewed that is being released")
		}
	}
	select {
	case err := <-released:
		t.Fatalf("the release was over before the renewals: %v", err)
	default:
	}
	close(deletes.goOn)
	if err := <-released; err != nil {
		t.Error(err)
	}
}

// A forgetfulKV loses the reply to the first delete.
type forgetfulKV struct {
	pb.KVClient
	deletes atomic.Int64
}

func (c *forgetfulKV) Txn(ctx context.Context, r *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	resp, err := c.KVClient.Txn(ctx, r, opts...)
	if deletes(r) && c.deletes.Add(1) == 1 {
		return nil, status.Error(codes.Unavailable, "the reply is lost")
	}
	return resp, err
}

// A release after the deadline that finds the key deleted returns ErrLost, even if one of its replies was lost.
func TestLateReleaseHasReleasedNothing(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	b, err := onClient(c, s.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	l := acquire(t, b, req("late", b.Guarantees().MinTTL)).(*kit.Life)
	until(t, outage, "the server has removed the key", func() bool { return ownKey(t, c, l.Owner()) == "-" })
	forgetful := &forgetfulKV{KVClient: pb.NewKVClient(c.ActiveConnection())}
	b.kv = clientv3.NewKVFromKVClient(forgetful, c)
	if err := (requests{b}).ReleaseLease(t.Context(), l); !errors.Is(err, backend.ErrLost) {
		t.Errorf("a late release whose first reply was lost: %v, want ErrLost", err)
	}
	if n := forgetful.deletes.Load(); n != 2 {
		t.Errorf("sent %d deletes, want 2", n)
	}
}
