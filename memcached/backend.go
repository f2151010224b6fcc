package memcached

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A Backend keeps locks in one memcached. It implements [backend.Backend], [backend.BatchRenewer]
// and [backend.Resumer].
type Backend struct {
	pool       *pool
	options    Options
	guarantees backend.Guarantees
	leases     *kit.Leases
	maxToken   atomic.Uint64    // the greatest token drawn
	now        func() time.Time // the wall clock
}

var (
	_ backend.Backend      = (*Backend)(nil)
	_ backend.BatchRenewer = (*Backend)(nil)
	_ backend.Resumer      = (*Backend)(nil)
)

func newBackend(addr string, o Options) *Backend {
	b := &Backend{pool: newPool(addr, o), options: o, guarantees: guarantees(), now: time.Now}
	b.leases = kit.NewLeases(requests{b}, o.Timeout)
	return b
}

// Acquire implements [backend.Backend]. A TTL over Guarantees.MaxTTL is ErrInvalid. Waiters poll.
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	a := &attempt{b: b, r: r, name: lockName(r.Key), ttl: b.guarantees.Round(r.TTL)}
	return b.leases.Acquire(ctx, r, kit.Waiter{Try: a.try, Pause: pollPause, CleanUp: a.cleanUp})
}

// Inspect implements [backend.Backend]. It does not report the TTL, nor the token of a lock that is just being granted.
func (b *Backend) Inspect(ctx context.Context, key string) (h backend.Holder, err error) {
	err = b.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		r, _, err := operation(ctx, b, 0, func(c *connection, _ bool) (*record, error) {
			return read(c, lockName(key), key)
		})
		if err == nil && r != nil {
			h = r.describe()
		}
		return err
	})
	return h, err
}

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees { return b.guarantees }

// Close implements [backend.Backend].
func (b *Backend) Close() error {
	if b.leases.Close() {
		b.pool.close()
		b.leases.Drain()
	}
	return nil
}
