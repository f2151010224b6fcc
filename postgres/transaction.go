package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// In ModeTransaction a lease is an open transaction, by the simple protocol: the extended one keeps a snapshot, which holds
// back vacuum. It takes no transaction id for the same reason; the token is taken on another connection.

// lockTransaction asks for h's lock in a new transaction, and for a token when it is granted.
func (s *session) lockTransaction(ctx context.Context, h *held) (token uint64, err error) {
	timeout := min(h.ttl, maxTimeout)
	text := s.labelNow(timeout) + fmt.Sprintf(beginSQL, timeout.Milliseconds(), h.h)
	row, err := s.simple(text)
	if err != nil {
		s.close()
		return 0, translate(err)
	}
	const columns = 2
	if len(row) != columns {
		s.close()
		return 0, fmt.Errorf("unexpected answer of %d columns", len(row))
	}
	if row[1] == "f" {
		_ = s.endTransaction() // or the session is closed; the answer stands
		return 0, nil
	}
	s.setTimeout(timeout)
	limit := s.b.options.Timeout
	if h.ttl >= time.Second {
		limit = min(limit, h.ttl*9/10) // a token that comes with the end of the TTL is of no use
	}
	tctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if token, err = s.b.takeToken(tctx, row[0]); err != nil {
		s.abort() // it has the lock, for longer than the server may take to hear of the end
		if kit.Ended(tctx) && !kit.Ended(ctx) {
			err = fmt.Errorf("%w: no token within %v: it is taken by a connection of its own, and all of a pooler may be in use",
				backend.ErrUnavailable, limit)
		}
	}
	return token, err
}

// takeToken gets a transaction id, which is greater than all before, of the server that has run since the time given: that which gave
// the lock. Another one in its place does not know the lock. One that recovers from the crash of a process keeps its time, and ends the
// lock's connection, which tells.
func (b *Backend) takeToken(ctx context.Context, since string) (token uint64, err error) {
	sql := tokenSQL
	if b.options.Durable {
		sql = tokenDurableSQL
	}
	err = b.aside(ctx, func(other *session) error {
		row, err := other.simple(sql)
		const columns = 2
		switch {
		case err != nil:
			return err
		case len(row) != columns:
			return fmt.Errorf("unexpected answer of %d columns", len(row))
		case row[0] != since:
			return fmt.Errorf("%w: the server was started or replaced between the lock and its token", backend.ErrUnavailable)
		}
		token, err = parseToken(row[1])
		return err
	})
	return token, err
}

// prolongTransaction starts the transaction's idle time anew.
func (s *session) prolongTransaction(ttl time.Duration) error {
	timeout := min(ttl, maxTimeout)
	_, err := s.simple(s.labelNow(timeout) + fmt.Sprintf(prolongSQL, timeout.Milliseconds()))
	if code(err) != "" {
		s.close() // a statement that fails ends the transaction, and frees the lock
	}
	if err != nil {
		return err
	}
	s.setTimeout(timeout)
	return nil
}

// endTransaction gives up the transaction's lock.
func (s *session) endTransaction() error {
	_, err := s.simple("ROLLBACK")
	if err != nil {
		s.close()
		return err
	}
	s.setTimeout(0)
	return nil
}
