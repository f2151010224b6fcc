package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// leastLimit is the least time in which a renewal must be answered; a short lease's deadline may come sooner.
const leastLimit = 250 * time.Millisecond

// requests are what Leases asks of the server.
type requests struct{ b *Backend }

var _ backend.Requests = requests{}

// Guarantees implements [backend.Requests].
func (q requests) Guarantees() backend.Guarantees { return q.b.guarantees }

// RenewLease implements [backend.Requests].
func (q requests) RenewLease(ctx context.Context, l *backend.Life, ttl time.Duration) (time.Duration, error) {
	b := q.b
	r := renewalOf(l, ttl)
	// On a connection that hangs a renewal fails while there is time for another one.
	v, _, err := b.eval(ctx, b.renewalRequest([]*renewal{r}, max(ttl/3, leastLimit)))
	if err == nil {
		renewAnswers(v, 1, func(_ int, e error) { err = e })
	}
	return ttl, err
}

// ReleaseLease implements [backend.Requests].
func (q requests) ReleaseLease(ctx context.Context, l *backend.Life) error {
	h, _ := l.Data.(*held)
	if h != nil { // a release is not called off: its context only bounds it, as Options.Timeout does
		ctx = context.WithoutCancel(ctx)
		h.over.Store(true)
	}
	removed, err := q.b.release(ctx, l.Key(), l.Owner(), l.Token())
	if err != nil {
		return err
	}
	switch {
	case h == nil:
		// An owner is being abandoned whose request may still be on its way, also behind this removal: nothing is certain
		// until it has been looked for again.
		return fmt.Errorf("%w: owner is being abandoned", backend.ErrLost)
	case h.echo:
		q.b.leases.Abandon(l.Key(), l.Owner(), h.ttl)
	}
	if !removed {
		return backend.ErrLost
	}
	return nil
}

// releaseReserved is what release.lua adds to its answer if the key is kept for a waiter.
const releaseReserved = 2

// release removes what is kept of owner, and reports whether there was anything. The token is that of its lease, if there is
// one for certain; otherwise 0.
func (b *Backend) release(ctx context.Context, key, owner string, token uint64) (removed bool, err error) {
	n := b.naming.names(key)
	v, unanswered, err := b.eval(ctx, exchange.Request{
		Script: releaseScript,
		Keys:   []string{n.lock, n.queue},
		Args:   []any{lockValue(token, 0, owner), b.told},
	})
	if err != nil {
		return false, err
	}
	what, ok := v.(int64)
	if !ok {
		return false, exchange.ErrReply(v)
	}
	if what >= releaseReserved {
		b.watches.begin(b, key, owner)
		what -= releaseReserved
	}
	return what > 0 || unanswered, nil // an attempt that went unanswered may have done it
}
