package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// E6. If the member to which a waiter is connected freezes, the waiter keeps its place. Once the holder has released
// the key, the waiter is granted the key.
func TestWaiterLeavesFrozenMember(t *testing.T) {
	storetest.Long(t, "freezes each of three members")
	t.Parallel()
	c := servers.EtcdClusterCurrent(t, 3)
	for i, s := range c.Servers {
		// The first waiter's client may be connected to member i: clientv3 chooses the member. The second waiter's client is
		// not.
		b := opened(t, "etcd://"+strings.Join(addrs(c), ","))
		other := opened(t, "etcd://"+strings.Join(without(addrs(c), i), ","))
		holder := acquire(t, other, req("k", time.Minute))
		first := queueUp(t, b, waiting("k", 20*time.Second), 1)
		second := queueUp(t, other, waiting("k", 20*time.Second), 2)
		s.Freeze()
		begun := time.Now()
		releaseAfterAll(t, holder)
		o := granted(t, first, outage)
		t.Logf("member %d frozen: granted after %v", i, o.At.Sub(begun))
		select {
		case <-second:
			t.Error("the second waiter came first")
		default:
		}
		releaseAfterAll(t, o.Lease)
		o = granted(t, second, outage)
		releaseAfterAll(t, o.Lease)
		s.Thaw()
		c.Leader()
	}
}

// releaseAfterAll releases a lease while a member is frozen or killed. It repeats the release until it succeeds.
func releaseAfterAll(t *testing.T, l backend.Lease) {
	t.Helper()
	until(t, outage, "a lease is released", func() bool { return l.Release(context.Background()) == nil })
}

func without(list []string, i int) []string {
	return append(append([]string(nil), list[:i]...), list[i+1:]...)
}

// E9. A leader that continues after a pause longer than a TTL ends no lease early that its successor has renewed. If
// locks stayed on their leases, this would fail in about one of ten trials, also with 3.7.3.
func TestPausedLeaderEndsNothingEarly(t *testing.T) {
	storetest.Long(t, "pauses a leader for longer than a lease lives")
	t.Parallel()
	c := servers.EtcdClusterCurrent(t, 3)
	ttl := 6 * time.Second
	for trials := 0; trials < 2; {
		if keptOverPause(t, c, ttl) {
			trials++
			continue
		}
		if ttl > outage {
			t.Fatalf("no renewal for %v was answered while the leader was frozen", ttl)
		}
		ttl *= 2
	}
}

// keptOverPause renews a lease while the leader is paused and after it continues. It returns false if the lease expired
// because no renewal was answered in time.
func keptOverPause(t *testing.T, c *servers.EtcdMembers, ttl time.Duration) bool {
	t.Helper()
	leader := c.Leader()
	b := opened(t, "etcd://"+strings.Join(addrs(c), ","))
	l := acquire(t, b, req(backend.NewOwner(), ttl))
	defer func() { _ = l.Release(context.Background()) }()
	renewed := func(when string) bool {
		deadline := l.Deadline()
		err := l.Renew(t.Context(), ttl)
		if early := time.Until(deadline); errors.Is(err, backend.ErrLost) && early > 0 {
			t.Fatalf("lost %v before its deadline, %s: %v", early, when, err)
		}
		return !errors.Is(err, backend.ErrLost)
	}
	c.Servers[leader].Freeze()
	for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(ttl / 10) {
		if !renewed("while the leader was frozen") {
			c.Servers[leader].Thaw()
			return false
		}
	}
	c.Servers[leader].Thaw()
	for end := time.Now().Add(ttl); time.Now().Before(end); time.Sleep(ttl / 20) {
		if !renewed("after the old leader went on") {
			return false
		}
		_, err := b.Acquire(t.Context(), req(l.(*kit.Life).Key(), ttl))
		if early := time.Until(l.Deadline()); err == nil && early > 0 {
			t.Fatalf("a second owner %v before the deadline, after the old leader went on", early)
		}
	}
	return true
}

// At the first renewal after a change of leader, a lock moves to a lease that the old leader does not know.
func TestNewLeaderNewLease(t *testing.T) {
	storetest.Long(t, "a cluster")
	t.Parallel()
	c := servers.EtcdClusterCurrent(t, 3)
	b := opened(t, "etcd://"+strings.Join(addrs(c), ","))
	const ttl = 20 * time.Second
	r, inBatch := req("k", ttl), req("b", ttl)
	w := raw(t, addrs(c)...)
	term := func() uint64 {
		resp, err := w.Get(t.Context(), "any")
		if err != nil {
			t.Fatal(err)
		}
		return resp.Header.RaftTerm
	}
	before := term()
	l, batched := acquire(t, b, r), acquire(t, b, inBatch)
	own, other := ownKey(t, w, r.Owner), ownKey(t, w, inBatch.Owner)
	was, wasOther := get(t, w, own), get(t, w, other)
	// If the machine stood still, there may have been an election, which raises the term.
	if err := l.Renew(t.Context(), ttl); err != nil || get(t, w, own) != was && term() == before {
		t.Fatalf("a renewal at the same leader: %v, the key is %+v, was %+v", err, get(t, w, own), was)
	}
	leader := c.Leader()
	c.Servers[leader].Kill()
	c.Leader()
	until(t, outage, "both are renewed", func() bool {
		errs := b.RenewBatch(t.Context(), []backend.Renewal{{Lease: batched, TTL: ttl}})
		return l.Renew(t.Context(), ttl) == nil && errs[0] == nil
	})
	for key, before := range map[string]kv{own: was, other: wasOther} {
		if now := get(t, w, key); now.Lease == before.Lease || now.CreateRevision != before.CreateRevision {
			t.Errorf("renewed at a new leader: %+v, was %+v", now, before)
		}
	}
	releaseAfterAll(t, l)
	releaseAfterAll(t, batched)
	c.Servers[leader].Start()
}

// If the only server is slow to report its version, New waits for the version: the guarantees include the flaws of that
// version.
func TestSlowServerTellsItsVersion(t *testing.T) {
	t.Parallel()
	const timeout = 8 * time.Second
	s := shared(t)
	slow := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption,
	) error {
		if strings.HasSuffix(method, "/Status") {
			time.Sleep(timeout/attemptsPerTimeout + 100*time.Millisecond) // sleeps: a slow server
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(slow)}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b, err := New(t.Context(), c, &Options{Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if want := opened(t, s.URL()).Guarantees(); b.Guarantees() != want {
		t.Errorf("%+v, want %+v", b.Guarantees(), want)
	}
}
