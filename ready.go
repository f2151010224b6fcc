package lock

import (
	"context"
	"errors"
	"log/slog"

	"github.com/anylock/lock/backend"
)

// NotReady returns why the store cannot grant leases yet: which part of it cannot, until when, and why. It is nil if the store can,
// or does not know. It makes no request.
func (l *Locker) NotReady() error {
	if err := l.unopened(); err != nil {
		return l.error("acquire", "", err)
	}
	if r, ok := l.backend.(backend.Readiness); ok {
		return l.error("acquire", "", r.NotReady())
	}
	return nil
}

// tellNotReady logs, when a wait at the store begins, that it will be long.
func (l *Locker) tellNotReady(ctx context.Context, key string, handed *hold, wait bool) {
	if !wait || handed != nil || !l.defaults.logger.Enabled(ctx, slog.LevelWarn) {
		return
	}
	if err := l.NotReady(); err != nil {
		l.defaults.logger.Warn("acquire: the store cannot grant yet", "key", key, "backend", l.name, "error", errors.Unwrap(err))
	}
}
