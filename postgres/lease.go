package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
)

// requests are what Leases asks of the server.
type requests struct{ b *Backend }

var _ backend.Requests = requests{}

// Guarantees implements [backend.Requests].
func (q requests) Guarantees() backend.Guarantees { return q.b.guarantees }

// RenewLease implements [backend.Requests].
func (q requests) RenewLease(ctx context.Context, l *backend.Life, ttl time.Duration) (time.Duration, error) {
	h, p := l.Data.(*hold), &q.b.pool
	limit, _ := h.s.limit(nil)
	_, err := h.s.make(ctx, request{
		limit: max(limit, ttl),
		do: func(rctx context.Context) error {
			if p.isGone(h) {
				return backend.ErrLost
			}
			if err := q.b.prolong(rctx, h, ttl); err != nil {
				return h.s.lostOr(err)
			}
			p.mu.Lock()
			h.ttl = ttl
			p.mu.Unlock()
			return nil
		},
	})
	if errors.Is(err, errBroken) {
		err = backend.ErrLost
	}
	return ttl, told(context.WithoutCancel(ctx), err) // Leases knows whose context has ended
}

func (b *Backend) prolong(ctx context.Context, h *hold, ttl time.Duration) error {
	if b.options.Mode == ModeTransaction {
		return h.s.prolongTransaction(ctx, h, ttl)
	}
	return h.s.renew(ctx, h, ttl)
}

// lostOr is err, or ErrLost where the connection has ended with it, and every lease on it.
func (s *session) lostOr(err error) error {
	if s.isBroken() || endedByServer(err) {
		return fmt.Errorf("%w: %w", backend.ErrLost, err)
	}
	return err
}

func (p *pool) isGone(h *hold) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return h.gone
}

// ReleaseLease implements [backend.Requests].
func (q requests) ReleaseLease(ctx context.Context, l *backend.Life) error {
	h, ok := l.Data.(*hold)
	if !ok {
		return nil // an attempt that failed has closed its connection or given the lock up
	}
	return q.b.giveUp(ctx, h)
}

// giveUp releases what h holds, and makes sure of it if its connection is broken.
func (b *Backend) giveUp(ctx context.Context, h *hold) error {
	p := &b.pool
	limit, alone := h.s.limit(h)
	_, err := h.s.make(ctx, request{
		limit: limit, alone: alone,
		do: func(rctx context.Context) error {
			p.mu.Lock()
			gone, done := h.gone, h.done
			p.mu.Unlock()
			switch {
			case done:
				return nil
			case gone:
				return backend.ErrLost
			}
			err := h.s.unlock(rctx, h)
			if endedByServer(err) {
				err = fmt.Errorf("%w: %w", backend.ErrLost, err)
			}
			if err == nil || errors.Is(err, backend.ErrLost) {
				p.mu.Lock()
				h.done = err == nil
				p.dropLocked(h)
				p.mu.Unlock()
			}
			return err
		},
	})
	if errors.Is(err, errBroken) {
		return b.exorcise(ctx, h)
	}
	return err
}

func (s *session) unlock(ctx context.Context, h *hold) error {
	if s.b.options.Mode == ModeTransaction {
		return s.endTransaction(ctx)
	}
	return s.release(ctx, h)
}
