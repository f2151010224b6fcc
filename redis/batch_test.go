package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
	"github.com/anylock/lock/redis/internal/redistest"
)

// With ten thousand leases, the number of goroutines stays constant, and batch renewals keep every lease for two TTLs.
func TestManyLeases(t *testing.T) {
	const leases, ttl = 10000, 5 * time.Second
	storetest.Long(t, "ten thousand leases")
	t.Run("single", func(t *testing.T) { manyLeases(t, opened(t, ownDatabase(t).URL), leases, ttl) })
	t.Run("cluster", func(t *testing.T) { manyLeases(t, opened(t, "redis+cluster://"+cluster(t)[0].Addr), leases, ttl) })
}

func manyLeases(t *testing.T, b *Backend, leases int, ttl time.Duration) {
	ctx := context.Background()
	goroutines := redistest.FewestGoroutines()
	list := storetest.HoldMany(t, b, 0, leases, time.Minute)
	for i := range list {
		list[i].TTL = ttl
	}
	if n := redistest.FewestGoroutines(); n > goroutines+20 {
		t.Errorf("%d goroutines more for %d leases", n-goroutines, leases)
	}
	renewals := 0
	var longest time.Duration
	tick := time.NewTicker(ttl / 3)
	defer tick.Stop()
	for end := time.Now().Add(2 * ttl); time.Now().Before(end); <-tick.C {
		begun := time.Now()
		for i, err := range b.RenewBatch(ctx, list) {
			if err != nil {
				t.Fatalf("renewal of lease %d: %v", i, err)
			}
		}
		longest = max(longest, time.Since(begun))
		renewals++
	}
	for i, r := range list {
		select {
		case <-r.Lease.Lost():
			t.Fatalf("lease %d is lost", i)
		default:
		}
	}
	t.Logf("%d leases renewed %d times, at most %v each time", leases, renewals, longest)
	if got := b.leases.Len(); got != leases {
		t.Errorf("%d leases are live, want %d", got, leases)
	}
	// A batch reports ErrLost for the lost lease only, and renews the others.
	key := list[7].Lease.(*kit.Life).Key()
	if _, _, err := b.release(ctx, b.naming.names(key), lockValue(0, list[7].Lease.(*kit.Life).Owner()), false); err != nil {
		t.Fatal(err)
	}
	for i, err := range b.RenewBatch(ctx, list) {
		if (i == 7) != errors.Is(err, backend.ErrLost) {
			t.Errorf("lease %d after lease 7 was removed: %v", i, err)
		}
	}
}

// In a cluster, a server that hangs delays only the renewals of its own leases.
func TestBatchWithAHungServer(t *testing.T) {
	t.Parallel()
	nodes := cluster(t)
	b := opened(t, "redis+cluster://"+nodes[0].Addr+"?timeout=20s") // longer than the batch's context
	const leases, hung = 60, 1
	list := make([]backend.Renewal, leases)
	for i := range list {
		list[i] = backend.Renewal{Lease: acquire(t, b, req(fmt.Sprint("hung-", i), time.Minute)), TTL: time.Minute}
	}
	of := func(i int) int {
		return endpoint.Slot(list[i].Lease.(*kit.Life).Key()) * len(nodes) / endpoint.Slots
	}
	for i, err := range b.RenewBatch(context.Background(), list) {
		if err != nil {
			t.Fatalf("lease %d: %v", i, err)
		}
	}
	nodes[hung].Freeze()
	defer nodes[hung].Thaw()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // after 3 s, the others mark it as failed
	defer cancel()
	for i, err := range b.RenewBatch(ctx, list) {
		if of(i) == hung && (err == nil || errors.Is(err, backend.ErrLost)) || of(i) != hung && err != nil {
			t.Errorf("lease %d, of server %d: %v", i, of(i), err)
		}
	}
}

// A batch reports lost leases as lost, even if too few replicas acknowledge the other renewals.
func TestLossInABatchWithoutReplicas(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	list := make([]backend.Renewal, 3)
	for i := range list {
		list[i] = backend.Renewal{Lease: acquire(t, b, req(fmt.Sprint("k", i), time.Minute)), TTL: time.Minute}
	}
	b.client.Del(context.Background(), b.naming.lock("k1"))
	b.options.MinReplicas = 1
	for i, err := range b.RenewBatch(context.Background(), list) {
		want := exchange.ErrReplicas
		if i == 1 {
			want = backend.ErrLost
		}
		if !errors.Is(err, want) {
			t.Errorf("lease %d: %v, want %v", i, err, want)
		}
	}
	b.options.MinReplicas = 0
}

// A client that does not know that its server belongs to a Cluster, for example because of a proxy, renews leases of
// several slots although the server refuses to renew them together.
func TestBatchBehindProxyToCluster(t *testing.T) {
	t.Parallel()
	c := redistest.Raw(t, clusterNode(t).Addr)
	if err := c.ClusterAddSlotsRange(t.Context(), 0, endpoint.Slots-1).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, soon, "the cluster is up", func() bool {
		return strings.Contains(c.ClusterInfo(context.Background()).Val(), "cluster_state:ok")
	})
	b, err := onClient(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var list []backend.Renewal
	for i := range 10 {
		l := acquire(t, b, req(fmt.Sprint("k", i), time.Minute))
		list = append(list, backend.Renewal{Lease: l, TTL: time.Hour})
	}
	for i, err := range b.RenewBatch(t.Context(), list) {
		l := list[i].Lease
		if err != nil || time.Until(l.Deadline()) < time.Minute {
			t.Errorf("renewal %d: %v", i, err)
		}
		release(t, l)
	}
}
