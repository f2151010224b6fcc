package etcd

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

// keepRenewed renews list until end, in batches and as often as package lock does. It repeats failed renewals at once.
// It returns how many leases were lost, and how long the slowest round of a batch took.
func keepRenewed(
	list []backend.Renewal, b *Backend, ttl time.Duration, end time.Time,
) (lost int, slowest time.Duration) {
	const batch = 1024
	var mu sync.Mutex
	var all sync.WaitGroup
	for first := 0; first < len(list); first += batch {
		some := list[first:min(first+batch, len(list))]
		all.Go(func() {
			for time.Now().Before(end) {
				begun := time.Now()
				left := some
				for len(left) > 0 {
					soonest := left[0].Lease.Deadline()
					for _, r := range left {
						if d := r.Lease.Deadline(); d.Before(soonest) {
							soonest = d
						}
					}
					ctx, cancel := context.WithTimeout(context.Background(), max(time.Until(soonest)/3, leastLimit))
					var again []backend.Renewal
					for i, err := range b.RenewBatch(ctx, left) {
						select {
						case <-left[i].Lease.Lost():
						default:
							if err != nil {
								again = append(again, left[i])
							}
						}
					}
					cancel()
					left = again
				}
				mu.Lock()
				slowest = max(slowest, time.Since(begun))
				mu.Unlock()
				time.Sleep(time.Until(begun.Add(ttl / 3))) // sleeps: the interval between renewals
			}
		})
	}
	all.Wait()
	for _, r := range list {
		select {
		case <-r.Lease.Lost():
			lost++
		default:
		}
	}
	return lost, slowest
}

// A change of leader ends none of thousands of locks, although each of them must move to a new etcd lease at its next
// renewal.
func TestNewLeaderEndsNoneOfMany(t *testing.T) {
	storetest.Long(t, "moves thousands of locks to new leases")
	skipRaced(t)
	const leases, ttl = 6000, 10 * time.Second
	c := servers.EtcdClusterCurrent(t, 3)
	b := opened(t, "etcd://"+strings.Join(addrs(c), ","))
	var list []backend.Renewal
	for len(list) < leases { // acquiring all of them takes longer than the first ones live
		list = append(list, holdMany(t, b, len(list), leases/6, ttl)...)
		for i, err := range b.RenewBatch(t.Context(), list) {
			if err != nil {
				t.Fatalf("renewal %d of %d: %v", i, len(list), err)
			}
		}
	}
	was := c.Leader()
	status := func(i int) uint64 {
		s, err := raw(t, c.Servers[i].Addr).Status(t.Context(), c.Servers[i].Addr)
		if err != nil {
			t.Fatal(err)
		}
		return s.Header.MemberId
	}
	if _, err := raw(t, c.Servers[was].Addr).MoveLeader(t.Context(), status((was+1)%3)); err != nil {
		t.Fatal(err)
	}
	until(t, soon, "another member leads", func() bool { return c.Leader() != was })
	lost, slowest := keepRenewed(list, b, ttl, time.Now().Add(2*ttl))
	t.Logf("%d leases, the slowest round of a batch took %v", leases, slowest)
	if lost > 0 {
		t.Errorf("%d of %d leases were lost by a change of leader, with all members healthy", lost, leases)
	}
	stale := 0
	for _, r := range list {
		if h := r.Lease.(*kit.Life).Data.(*boundKey); h.lease != nil && b.pool.state(h.lease).stale {
			stale++
		}
	}
	if stale > 0 {
		t.Errorf("%d locks are still on leases that the old leader knows", stale)
	}
	storetest.ReleaseMany(list[:100])
}
