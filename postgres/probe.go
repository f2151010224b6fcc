package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// probe refuses, before anything is set in the session, a server that only looks like Postgres, and a pooler that cannot keep what the
// mode needs: a session, or a transaction.
func (b *Backend) probe(ctx context.Context, s *session) error {
	if strings.Contains(s.server.version, "CockroachDB") {
		return refused("the server is CockroachDB, whose advisory locks exclude nobody")
	}
	if err := s.probeLocks(); err != nil {
		return err
	}
	if b.options.Mode == ModeTransaction || s.direct {
		return nil // the session that answers is the one that was connected to
	}
	return b.probePooler(ctx, s)
}

// probeLocks takes a lock in a transaction and looks for it among the server's locks: functions that say yes and lock nothing are
// all that some servers have.
func (s *session) probeLocks() error {
	h := hash(rand.Int64())
	classid, objid := h.halves()
	row, err := s.simple(fmt.Sprintf(probeSQL, h, classid, objid))
	if err == nil {
		_, err = s.simple("ROLLBACK")
	}
	switch {
	case lacking(err), err != nil && strings.Contains(err.Error(), "statement pooling"): // as PgBouncer says
		return refused("the server, or a pooler before it, lacks transactions, their idle timer, or advisory locks: %v", err)
	case err != nil:
		return err
	case len(row) != 1 || row[0] != "1":
		return refused("an advisory lock that the server has granted is not among its locks (pg_locks): it excludes nobody")
	}
	return nil
}

// probePooler asks a second connection to keep a session busy, and looks whether the first one still has its own. In
// transaction pooling the second gets the session that the first has used last.
func (b *Backend) probePooler(ctx context.Context, s *session) error {
	const rounds, patience = 3, time.Second
	pooled := refused("a pooler gives statements to different sessions (as PgBouncer with pool_mode=transaction): "+
		"open with %s=transaction", paramMode)
	for range rounds {
		other, err := b.dial(ctx)
		if err != nil {
			return err
		}
		defer other.conn.Conn().Close()
		var row []string
		err = other.bounded(ctx, func() (err error) {
			if _, err = other.simple("BEGIN"); err == nil {
				row, err = other.simple(pidSQL)
			}
			return err
		})
		if code(err) != "" {
			return pooled
		}
		if err != nil {
			return err
		}
		if row[0] == s.server.pid || row[0] != other.server.pid {
			return pooled
		}
		s.limit(patience)
		row, err = s.simple(pidSQL)
		if err != nil || len(row) == 0 || row[0] != s.server.pid {
			return pooled
		}
	}
	return nil
}

// look connects for the first time.
func (b *Backend) look(ctx context.Context) error {
	return b.aside(ctx, func(s *session) error {
		b.probed.Store(true)
		b.room(s.server.locks)
		return nil
	})
}

// refused is for servers and poolers that cannot do it.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", backend.ErrUnsupported, fmt.Sprintf(format, args...))
}
