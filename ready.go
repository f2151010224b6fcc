package lock

import (
	"context"
	"log/slog"
)

// tellNotReady logs, when a wait at the store begins, that it will be long.
func (l *Locker) tellNotReady(ctx context.Context, key string, handed *hold, wait bool) {
	if !wait || handed != nil || !l.defaults.logger.Enabled(ctx, slog.LevelWarn) {
		return
	}
	if err := l.notReady(); err != nil {
		l.defaults.logger.Warn("acquire: the store cannot grant yet", "key", key, "backend", l.name, "error", err)
	}
}
