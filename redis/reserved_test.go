package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
)

// A waiter for which the key is only reserved has no lease: Break and Resume return ErrLost and change nothing.
func TestReservationIsNoLease(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	b := opened(t, s.URL)
	c, ctx := s.raw(t), context.Background()
	for _, r := range []backend.Request{req("writer", time.Minute), shared(req("reader", time.Minute))} {
		lock, member := b.naming.lock(r.Key), lockValue(0, r.Owner)
		if r.Shared {
			ends := time.Now().Add(time.Minute)
			c.ZAdd(ctx, lock, redis.Z{Score: float64(ends.UnixMilli()), Member: member})
			c.PExpireAt(ctx, lock, ends)
		} else {
			c.Set(ctx, lock, member, time.Minute)
		}
		if l, err := b.Resume(ctx, r); !errors.Is(err, backend.ErrLost) {
			t.Errorf("resume of the reservation of a %s: lease %v, %v", r.Key, l != nil, err)
		}
		if err := b.Break(ctx, r.Key, r.Owner); !errors.Is(err, backend.ErrLost) {
			t.Errorf("break of the reservation of a %s: %v", r.Key, err)
		}
		if h := inspect(t, b, r.Key); h.Owner != r.Owner || h.Token != 0 {
			t.Errorf("after that, the key of a %s: %+v", r.Key, h)
		}
	}
}
