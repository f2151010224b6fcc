package pair

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A lease is a Life whose deadline is never later than either half's. Their losses end it.
type lease struct {
	*kit.Life
	pair *Backend
	*halves
}

// The halves of a lease, one at each store.
type halves struct {
	first, second backend.Lease
	asked, since  time.Time     // when the first was asked for, and when it was there
	over          chan struct{} // closed when they are given up
	once          sync.Once     // closes it
}

// Deadline implements backend.Lease. A half's may be earlier, or move by itself (Guarantees.MaxSilence).
func (l *lease) Deadline() time.Time {
	return earlier(l.Life.Deadline(), earlier(l.first.Deadline(), l.second.Deadline()))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Release implements backend.Lease. The half that is left of a lost lease is given back too.
func (l *lease) Release(ctx context.Context) error {
	err := l.Life.Release(ctx)
	if errors.Is(err, backend.ErrLost) {
		l.pair.leases.Go(func(context.Context) {
			_ = l.release(context.WithoutCancel(ctx)) // its TTL ends it in any case
		})
	}
	return err
}

// release releases both halves, the second first. The first is released even if that of the second fails.
func (h *halves) release(ctx context.Context) error {
	h.once.Do(func() { close(h.over) })
	err := h.second.Release(ctx)
	if ferr := h.first.Release(ctx); err == nil || ferr != nil && errors.Is(err, backend.ErrLost) {
		err = ferr // an unknown outcome counts more than a loss
	}
	return err
}

// watch ends life when a half is lost.
func (h *halves) watch(life *kit.Life) {
	for _, half := range []backend.Lease{h.first, h.second} {
		if n, ok := half.(backend.LossNotifier); ok {
			n.OnLost(life.Lose)
			continue
		}
		go func() { // ends with the half, or when its holder gives it up: from then on its loss changes nothing
			select {
			case <-half.Lost():
				life.Lose()
			case <-h.over:
			}
		}()
	}
}

// requests implements kit.Requests for a pair.
type requests struct{ guarantees *backend.Guarantees }

// Guarantees implements kit.Requests.
func (q requests) Guarantees() backend.Guarantees { return *q.guarantees }

// RenewLease implements kit.Requests. If the first has lost the lease, or has not answered, there is no request to the
// second.
func (q requests) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	h := l.Data.(*halves)
	err := h.first.Renew(ctx, ttl)
	if err == nil {
		err = h.second.Renew(ctx, ttl)
	}
	return ttl, err
}

// ReleaseLease implements kit.Requests. Stores bound their releases by themselves; that of a pair's ends with its
// Close.
func (q requests) ReleaseLease(ctx context.Context, l *kit.Life) error {
	return l.Data.(*halves).release(ctx)
}
