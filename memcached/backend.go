package memcached

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/calls"
)

// A Backend keeps locks in one memcached. It implements [backend.Backend] and [backend.BatchRenewer].
type Backend struct {
	pool       *pool
	options    Options
	guarantees backend.Guarantees
	leases     *kit.Leases
	calls      calls.Calls
	maxToken   atomic.Uint64    // the greatest token drawn
	now        func() time.Time // the wall clock

	closing context.Context // done when Close begins
	close   context.CancelFunc
	once    sync.Once // of Close
}

var (
	_ backend.Backend      = (*Backend)(nil)
	_ backend.BatchRenewer = (*Backend)(nil)
)

func newBackend(addr string, o Options) *Backend {
	b := &Backend{pool: newPool(addr, o), options: o, guarantees: guarantees(), now: time.Now}
	b.closing, b.close = context.WithCancel(context.Background())
	b.leases = kit.NewLeases(requests{b}, o.Timeout)
	return b
}

// Acquire implements [backend.Backend]. A TTL over Guarantees.MaxTTL is ErrInvalid.
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := b.calls.Enter(ctx, b.closing.Done(), r.Validate()); err != nil {
		return nil, err
	}
	defer b.calls.End()
	call := ctx
	if r.Wait {
		wait, cancel := context.WithCancelCause(ctx)
		defer context.AfterFunc(b.closing, func() { cancel(backend.ErrClosed) })()
		defer cancel(nil)
		ctx = wait
	}
	ttl, err := b.round(r.TTL)
	if err != nil {
		return nil, err
	}
	a := &attempt{b: b, r: r, name: lockName(r.Key), ttl: ttl}
	l, err := a.run(ctx)
	if err != nil {
		a.cleanUp()
		if call.Err() == nil && ctx.Err() != nil {
			err = backend.ErrClosed
		}
		return nil, err
	}
	return l, nil
}

// Inspect implements [backend.Backend]. It does not report the TTL, nor the token of a lease that was never renewed.
func (b *Backend) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	if err := b.calls.Enter(ctx, b.closing.Done(), backend.ValidateKey(key)); err != nil {
		return backend.Holder{}, err
	}
	defer b.calls.End()
	r, _, err := operation(ctx, b, 0, func(c *connection, _ bool) (*record, error) {
		return read(c, lockName(key), key)
	})
	if err != nil || r == nil {
		return backend.Holder{}, err
	}
	return r.describe(), nil
}

// Guarantees implements [backend.Backend].
func (b *Backend) Guarantees() backend.Guarantees { return b.guarantees }

// closeGrace is how long Close waits for calls in progress.
const closeGrace = time.Second

// Close implements [backend.Backend].
func (b *Backend) Close() error {
	b.once.Do(func() {
		b.calls.Seal()
		b.close()
		b.calls.Drain(closeGrace)
		b.leases.Close()
		b.pool.close()
	})
	return nil
}
