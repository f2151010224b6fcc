package etcd

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// A thousand held leases need no goroutine each. RenewBatch keeps all of them alive, with hardly any transactions or
// new leases.
func TestManyHeldLeases(t *testing.T) {
	storetest.Long(t, "renews a thousand leases for longer than they live")
	const leases, ttl = 1000, 20 * time.Second
	b, w := wired(t, site{servers.EtcdCurrent(t), defaultNamespace})
	warm(t, b, ttl)
	before := settledGoroutines()
	renew := func(list []backend.Renewal) {
		t.Helper()
		for _, err := range b.RenewBatch(context.Background(), list) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	var list []backend.Renewal
	for len(list) < leases { // acquiring all of them may take as long as the first one lives
		list = append(list, holdMany(t, b, len(list), leases/8, ttl)...)
		renew(list)
	}
	if more := settledGoroutines() - before; more > 16 {
		t.Errorf("%d leases cost %d goroutines", leases, more)
	}
	w.take()
	var slowest time.Duration
	for end := time.Now().Add(5 * ttl / 4); time.Now().Before(end); {
		begun := time.Now()
		renew(list)
		slowest = max(slowest, time.Since(begun))
		time.Sleep(ttl / 4) // sleeps: the interval between renewals
	}
	counts, _ := w.take()
	if counts["Txn"] > leases/2 || counts["LeaseGrant"] > leases/2 { // the guard may still read each key once
		t.Errorf("renewals sent %v", counts)
	}
	t.Logf("%d leases renewed within %v: %v", leases, slowest, counts)
	for i, r := range list {
		if i%(leases/8) == 0 {
			renew(list)
		}
		if _, err := b.Acquire(t.Context(), req(r.Lease.(*kit.Life).Key(), ttl)); !errors.Is(err, backend.ErrHeld) {
			t.Fatalf("a second owner: %v", err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// settledGoroutines returns the lowest number of goroutines within 500 ms.
func settledGoroutines() int {
	least := runtime.NumGoroutine()
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		least = min(least, runtime.NumGoroutine())
	}
	return least
}

// A renewal with another TTL, longer or shorter, binds the key to another lease, and keeps the token. A renewal with
// the same TTL keeps the lease.
func TestRenewToAnotherTTL(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	b, w := wired(t, s)
	r := req("k", 10*time.Second)
	l := acquire(t, b, r)
	own := ownKey(t, c, r.Owner)
	token, was := l.Token(), get(t, c, own)
	for _, ttl := range []time.Duration{time.Hour, 5 * time.Second, time.Hour} {
		if err := l.Renew(t.Context(), ttl); err != nil {
			t.Fatal(err)
		}
		now := get(t, c, own)
		if now.Lease == was.Lease || now.CreateRevision != was.CreateRevision || l.Token() != token {
			t.Errorf("renewed for %v: %+v, was %+v", ttl, now, was)
		}
		if left := time.Until(l.Deadline()); left > ttl || left < ttl-backend.Margin(ttl)-soon/2 {
			t.Errorf("renewed for %v: %v left", ttl, left)
		}
		w.take()
		if err := l.Renew(t.Context(), ttl); err != nil {
			t.Fatal(err)
		}
		if counts, _ := w.take(); counts["LeaseKeepAlive"] == 0 || get(t, c, own) != now {
			t.Errorf("renewed for the same TTL: %v, %+v, was %+v", counts, get(t, c, own), now)
		}
		was = now
	}
	release(t, l)
	if n := s.countKeys(t, c); n != 0 {
		t.Errorf("%d keys after release", n)
	}
}

// If the reply to a change of the TTL is lost, the next renewal completes the change, and a release deletes the key in
// any case.
func TestLostReplyToAnotherTTL(t *testing.T) {
	t.Parallel()
	s := shared(t)
	c := raw(t, s.Addr)
	var silent atomic.Bool
	var lost atomic.Int64
	b := intercepted(t, s.Addr, s.options(), func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if binds(req) && silent.Load() {
			lost.Add(1)
			return status.Error(codes.Unavailable, "the reply is lost")
		}
		return err
	})
	for _, again := range []bool{true, false} {
		l := acquire(t, b, req("k", 30*time.Second))
		lost.Store(0)
		silent.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		renewed := make(chan error, 1)
		go func() { renewed <- l.Renew(ctx, 20*time.Second) }()
		until(t, soon, "a reply is lost", func() bool { return lost.Load() > 0 })
		cancel()
		if err := <-renewed; err == nil || errors.Is(err, backend.ErrLost) {
			t.Fatalf("renewal without an answer: %v", err)
		}
		silent.Store(false)
		if again {
			if err := l.Renew(t.Context(), 20*time.Second); err != nil {
				t.Fatalf("second renewal: %v", err)
			}
			if err := l.Renew(t.Context(), 20*time.Second); err != nil {
				t.Fatalf("third renewal: %v", err)
			}
		}
		release(t, l)
		until(t, soon, "the key is gone", func() bool { return s.countKeys(t, c) == 0 })
	}
}
