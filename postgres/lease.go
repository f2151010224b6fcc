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
type requests struct{ *Backend }

var _ kit.Requests = requests{}

// RenewLease implements [kit.Requests]. The end of ctx does not interrupt the request, which would break the connection
// and lose the lease.
func (q requests) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	h := l.Data.(*held)
	err := h.s.take(ctx)
	if err == nil {
		done := make(chan error, 1)
		renew := func(ctx context.Context) {
			defer h.s.give()
			h.s.limit(ctx, max(q.options.Timeout, h.ttl, ttl))
			err := backend.ErrLost
			if !q.pool.isGone(h) {
				err = h.s.renew(h, ttl)
			}
			if err != nil && h.s.isBroken() {
				err = fmt.Errorf("%w: %w", backend.ErrLost, err)
			}
			done <- err
		}
		if !q.leases.Go(renew) {
			h.s.give()
			return 0, backend.ErrClosed
		}
		select {
		case err = <-done:
		case <-ctx.Done():
			return 0, kit.ContextError(ctx, nil)
		}
	}
	if errors.Is(err, errBroken) {
		err = backend.ErrLost
	}
	return ttl, unavailable(err)
}

// renew starts the idle time of h's session anew, with the timeout ttl.
func (s *session) renew(h *held, ttl time.Duration) error {
	_, err := s.run(label(ttl, h.entry), ttl, stRenew)
	if err == nil {
		h.ttl = ttl
	}
	return err
}

// ReleaseLease implements [kit.Requests].
func (q requests) ReleaseLease(ctx context.Context, l *kit.Life) error {
	h, ok := l.Data.(*held)
	if !ok {
		return nil // an attempt that failed has closed its connection or given the lock up
	}
	err := q.giveUp(ctx, h)
	if errors.Is(err, errBroken) {
		if err = q.terminateNow(ctx, h.s.server); err == nil {
			err = backend.ErrLost // nobody has the key any more
		}
	}
	return unavailable(err)
}

// giveUp releases what h holds. After errBroken its session may still have it.
func (b *Backend) giveUp(ctx context.Context, h *held) error {
	if err := h.s.take(ctx); err != nil {
		return err
	}
	h.s.limit(context.Background(), b.options.Timeout) // ctx ends no sooner, but with Close
	err := h.s.unlock(h)
	h.s.give()
	if err == nil || errors.Is(err, backend.ErrLost) {
		b.pool.drop(h)
	}
	return err
}

// lock asks for h's lock by a try or a wait. It returns token 0 if that is refused.
func (s *session) lock(h *held, st statement) (token uint64, err error) {
	if h.shared {
		st += stTryShared - stTry
	}
	now, mint := time.Now(), &s.b.mint
	own := mint.begin(h.h, now, s.since)
	defer mint.end(h.h)
	row, err := s.run(label(h.ttl, h.entry), h.ttl, st, int64(h.h), int64(own.short()))
	if err == nil && row[0] != "" {
		token, err = mint.token(row[0], own, now)
	}
	if err != nil {
		s.close() // what it holds is not certain
	}
	return token, err
}

// unlock gives up h's lock. ErrLost means that the session did not have it.
func (s *session) unlock(h *held) error {
	if s.b.pool.isGone(h) {
		return backend.ErrLost
	}
	var function uint32 = pgAdvisoryUnlock
	if h.shared {
		function = pgAdvisoryUnlockShared // the other function would report that the session has no such lock
	}
	row, err := s.call(function, int64(h.h))
	switch {
	case endedByServer(err):
		return fmt.Errorf("%w: %w", backend.ErrLost, err)
	case err != nil:
		s.close() // which releases
	case row[0] != "t":
		err = backend.ErrLost
	}
	return err
}
