package pair

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A lease is a Life whose deadline is never later than either half's. The loss of either half ends it.
type lease struct {
	*kit.Life
	pair *Backend
	*halves
}

// halves are the two leases, one at each store, that make up a lease of the pair.
type halves struct {
	first, second  backend.Lease
	firstRequested time.Time     // when the first half was requested
	firstGranted   time.Time     // when the first half was granted
	releaseBegun   chan struct{} // closed when the release of the halves begins
	once           sync.Once     // closes releaseBegun
}

// Deadline implements backend.Lease. The deadline of a half may be earlier than the Life's, or move by itself (see
// Guarantees.MaxSilence).
func (l *lease) Deadline() time.Time {
	return earlier(l.Life.Deadline(), earlier(l.first.Deadline(), l.second.Deadline()))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Release implements backend.Lease. If the lease is lost, Release also releases the remaining half, in the background.
func (l *lease) Release(ctx context.Context) error {
	err := l.Life.Release(ctx)
	if errors.Is(err, backend.ErrLost) {
		l.pair.leases.Go(func(context.Context) {
			_ = l.release(context.WithoutCancel(ctx)) // if this fails, the half expires with its TTL
		})
	}
	return err
}

// release releases both halves, the second first. The first half is released even if the release of the second fails.
func (h *halves) release(ctx context.Context) error {
	h.once.Do(func() { close(h.releaseBegun) })
	err := h.second.Release(ctx)
	if ferr := h.first.Release(ctx); err == nil || ferr != nil && errors.Is(err, backend.ErrLost) {
		err = ferr // an unknown outcome takes precedence over a loss
	}
	return err
}

// watch makes the loss of either half end life.
func (h *halves) watch(life *kit.Life) {
	for _, half := range []backend.Lease{h.first, h.second} {
		if n, ok := half.(backend.LossNotifier); ok {
			n.OnLost(life.Lose)
			continue
		}
		go func() { // ends when the half is lost, or the halves are released: a later loss has no effect
			select {
			case <-half.Lost():
				life.Lose()
			case <-h.releaseBegun:
			}
		}()
	}
}

// requests implements kit.Requests for a pair.
type requests struct{ *Backend }

// RenewLease implements kit.Requests. If the first store has lost the lease or does not answer, no request is sent to
// the second.
func (q requests) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	h := l.Data.(*halves)
	err := h.first.Renew(ctx, ttl)
	if err == nil {
		err = h.second.Renew(ctx, ttl)
	}
	return ttl, err
}

// ReleaseLease implements kit.Requests. Each store limits the time of its own releases. Close ends releases that are
// still under way.
func (q requests) ReleaseLease(ctx context.Context, l *kit.Life) error {
	return l.Data.(*halves).release(ctx)
}
