package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// requests implements [kit.Requests]: the requests that kit.Leases sends to the server.
type requests struct{ *Backend }

var _ kit.Requests = requests{}

// RenewLease implements [kit.Requests]. If ctx ends, the request continues in the background, because an interruption
// would break the connection and lose the lease.
func (q requests) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	h := l.Data.(*checkout)
	err := h.s.acquireTurn(ctx)
	if err == nil {
		done := make(chan error, 1)
		renew := func(ctx context.Context) {
			defer h.s.releaseTurn()
			h.s.limit(ctx, max(q.options.Timeout, h.ttl, ttl))
			err := backend.ErrLost
			if !q.pool.wasDropped(h) {
				err = h.s.renew(h, ttl)
			}
			if err != nil && h.s.isBroken() {
				err = fmt.Errorf("%w: %w", backend.ErrLost, err)
			}
			done <- err
		}
		if !q.leases.Go(renew) {
			h.s.releaseTurn()
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

// renew restarts the idle timer of h's session with the timeout ttl.
func (s *session) renew(h *checkout, ttl time.Duration) error {
	_, err := s.run(label(ttl, h.entry), ttl, stRenew)
	if err == nil {
		h.ttl = ttl
	}
	return err
}

// ReleaseLease implements [kit.Requests].
func (q requests) ReleaseLease(ctx context.Context, l *kit.Life) error {
	h, ok := l.Data.(*checkout)
	if !ok {
		return nil // a failed attempt has already closed its connection or released the lock
	}
	err := q.releaseLock(ctx, h)
	if errors.Is(err, errBroken) {
		if err = q.terminateNow(ctx, h.s.server.session); err == nil {
			err = backend.ErrLost // the session has ended, and its lock with it
		}
	}
	return unavailable(err)
}

// releaseLock releases h's lock. After errBroken, the session may still hold the lock.
func (b *Backend) releaseLock(ctx context.Context, h *checkout) error {
	if err := h.s.acquireTurn(ctx); err != nil {
		return err
	}
	h.s.limit(context.Background(), b.options.Timeout) // ctx ends no earlier, except at Close
	err := h.s.unlock(h)
	h.s.releaseTurn()
	if err == nil || errors.Is(err, backend.ErrLost) {
		b.pool.drop(h)
	}
	return err
}

// lock requests h's lock with the statement st, a try or a wait. It returns token 0 if the lock is refused.
func (s *session) lock(h *checkout, st statement) (token uint64, err error) {
	if h.shared {
		st += stTryShared - stTry
	}
	now, tokens := time.Now(), &s.b.tokens
	own := tokens.begin(h.hash, now, s.since)
	defer tokens.end(h.hash)
	row, err := s.run(label(h.ttl, h.entry), h.ttl, st, int64(h.hash), int64(own.lowBits()))
	if err == nil && row[0] != "" {
		token, err = tokens.token(row[0], own, now)
	}
	if err != nil {
		s.close() // whether the session holds the lock is unknown
	}
	return token, err
}

// unlock releases h's lock. It returns ErrLost if the session did not hold the lock.
func (s *session) unlock(h *checkout) error {
	if s.b.pool.wasDropped(h) {
		return backend.ErrLost
	}
	var function uint32 = pgAdvisoryUnlock
	if h.shared {
		function = pgAdvisoryUnlockShared // the other function would report that the session has no such lock
	}
	row, err := s.call(function, int64(h.hash))
	switch {
	case endedByServer(err):
		return fmt.Errorf("%w: %w", backend.ErrLost, err)
	case err != nil:
		s.close() // which releases the lock
	case row[0] != "t":
		err = backend.ErrLost
	}
	return err
}
