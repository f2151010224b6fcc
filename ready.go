package lock

import (
	"context"
	"log/slog"

	"github.com/anylock/lock/backend"
)

// warnNotReady logs, when a wait at the store begins, that the store cannot grant yet.
func (l *Locker) warnNotReady(ctx context.Context, key string) {
	if !l.defaults.logger.Enabled(ctx, slog.LevelWarn) {
		return
	}
	if err := l.notReady(); err != nil {
		l.defaults.logger.Warn("acquire: the store cannot grant yet", "key", key, "backend", l.name, "error", err)
	}
}

// notReady returns an error if the store cannot grant yet, nil if it can or does not know.
func (l *Locker) notReady() error {
	if err := l.checkOpened(); err != nil {
		return err
	}
	if r, ok := l.backend.(backend.Readiness); ok {
		return r.NotReady()
	}
	return nil
}
