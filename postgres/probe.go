package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/anylock/lock/backend"
)

// probe refuses, before anything is set in the session, a server that only looks like Postgres.
func (s *session) probe() error {
	if strings.Contains(s.server.version, "CockroachDB") {
		return refused("the server is CockroachDB, whose advisory locks exclude nobody")
	}
	return s.probeLocks()
}

// probeLocks takes a lock in a transaction and looks for it among the server's locks: functions that say yes and lock
// nothing are all that some servers have.
func (s *session) probeLocks() error {
	h := hash(rand.Int64())
	classid, objid := h.halves()
	row, err := s.simple(fmt.Sprintf(probeSQL, h, classid, objid))
	if err == nil {
		_, err = s.simple("ROLLBACK")
	}
	switch {
	case lacking(err):
		return refused("the server lacks transactions, their idle timer, or advisory locks: %v", err)
	case err != nil:
		return err
	case len(row) != 1 || row[0] != "1":
		return refused("an advisory lock that the server has granted is not among its locks (pg_locks): it excludes nobody")
	}
	return nil
}

// look connects for the first time.
func (b *Backend) look(ctx context.Context) error {
	return b.onFreeSession(ctx, func(s *session) error {
		b.probed.Store(true)
		b.room(s.server.locks)
		return nil
	})
}

// refused reports a server that cannot keep locks, or a pooler before it.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", backend.ErrUnsupported, fmt.Sprintf(format, args...))
}
