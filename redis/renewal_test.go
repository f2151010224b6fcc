package redis

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/exchange"
)

// In a batch, each lease gets its own TTL and its own result, at every renewal, even if the keys of others are lost or
// replaced. A foreign key does not change.
func TestBatchOfAllSorts(t *testing.T) {
	t.Parallel()
	t.Run("single", func(t *testing.T) { batchOfAllSorts(t, opened(t, ownDatabase(t).URL)) })
	t.Run("cluster", func(t *testing.T) { batchOfAllSorts(t, opened(t, "redis+cluster://"+cluster(t)[0].Addr)) })
}

func batchOfAllSorts(t *testing.T, b *Backend) {
	ctx := context.Background()
	const leases = 3*exchange.ScriptLeases + 7
	list := make([]backend.Renewal, leases)
	for i := range list {
		list[i] = backend.Renewal{Lease: acquire(t, b, req(fmt.Sprint("sort-", i), time.Minute)), TTL: time.Hour}
	}
	life := func(i int) *kit.Life { return list[i].Lease.(*kit.Life) }
	name := func(i int) string { return b.naming.lock(life(i).Key()) }
	renew := func(what string, want map[int]error) {
		t.Helper()
		begun := time.Now()
		for i, err := range b.RenewBatch(ctx, list) {
			if !errors.Is(err, want[i]) {
				t.Fatalf("%s: lease %d: %v, want %v", what, i, err, want[i])
			}
			if left := b.client.PTTL(ctx, name(i)).Val(); want[i] == nil &&
				(left > list[i].TTL || left < list[i].TTL-time.Second-time.Since(begun)) {
				t.Fatalf("%s: lease %d has %v left, want %v", what, i, left, list[i].TTL)
			}
		}
	}
	renew("the first", nil)
	renew("the second", nil)
	for i := range list {
		list[i].TTL = time.Duration(1+i%3) * 20 * time.Second // some longer, some shorter
	}
	renew("to other TTLs", nil)
	renew("to other TTLs again", nil)

	b.client.Del(ctx, name(0))
	stranger := fmt.Sprintf("%d:stranger", life(5).Token())
	b.client.Set(ctx, name(5), stranger, 77*time.Second)
	b.client.Set(ctx, name(70), "0:"+life(70).Owner(), 77*time.Second) // as if only reserved for it
	b.client.Del(ctx, name(leases-1))
	b.client.LPush(ctx, name(leases-1), "no string")
	lost := map[int]error{0: backend.ErrLost, 5: backend.ErrLost, 70: backend.ErrLost, leases - 1: backend.ErrLost}
	renew("of stolen keys", lost)
	if v, left := b.client.Get(ctx, name(5)).Val(), b.client.PTTL(ctx, name(5)).Val(); v != stranger ||
		left > 77*time.Second {
		t.Errorf("a stranger's key: %q for %v", v, left)
	}
	renew("after losses", lost)
}
