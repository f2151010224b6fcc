package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// requests are what Leases asks of the server.
type requests struct{ b *Backend }

var _ kit.Requests = requests{}

// Guarantees implements [kit.Requests].
func (q requests) Guarantees() backend.Guarantees { return q.b.guarantees }

// RenewLease implements [kit.Requests].
func (q requests) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	h, p := l.Data.(*held), &q.b.pool
	err := h.s.make(ctx, request{
		limit: max(q.b.options.Timeout, p.ttlOf(h), ttl),
		do: func() error {
			if p.isGone(h) {
				return backend.ErrLost
			}
			if err := h.s.renew(ttl); err != nil {
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
	return ttl, unavailable(err)
}

// ttlOf returns the TTL of h's latest renewal.
func (p *pool) ttlOf(h *held) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return h.ttl
}

func (p *pool) isGone(h *held) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return h.gone
}

// ReleaseLease implements [kit.Requests].
func (q requests) ReleaseLease(ctx context.Context, l *kit.Life) error {
	h, ok := l.Data.(*held)
	if !ok {
		return nil // an attempt that failed has closed its connection or given the lock up
	}
	err := q.b.giveUp(ctx, h)
	if errors.Is(err, errBroken) {
		if err := q.b.terminateBroken(ctx, h.s); err != nil {
			return err
		}
		return backend.ErrLost // nobody has the key any more
	}
	return err
}

// giveUp releases what h holds. After errBroken its session may still have it.
func (b *Backend) giveUp(ctx context.Context, h *held) error {
	p := &b.pool
	return h.s.make(ctx, request{
		limit: b.options.Timeout, alone: true, limited: true,
		do: func() error {
			if p.isGone(h) {
				return backend.ErrLost
			}
			err := h.s.release(h)
			if endedByServer(err) {
				err = fmt.Errorf("%w: %w", backend.ErrLost, err)
			}
			if err == nil || errors.Is(err, backend.ErrLost) {
				h.s.over = h
			}
			return err
		},
	})
}
