package endpoint

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend/kit"
)

// A clientLogger is the logger of go-redis, which has only one for the whole process. It writes to the logger of the
// context, or else to that of the Locker that was opened last.
type clientLogger struct{ last *slog.Logger }

// LogTo makes go-redis write its own lines to the logger of ctx instead of standard error. Without such a logger, the
// lines are discarded.
func LogTo(ctx context.Context) {
	logger, _ := kit.LoggerOf(ctx)
	redis.SetLogger(clientLogger{logger})
}

// Printf implements go-redis' logger.
func (l clientLogger) Printf(ctx context.Context, format string, args ...any) {
	logger, ok := kit.LoggerOf(ctx)
	if !ok {
		logger = l.last
	}
	if logger != nil && logger.Enabled(ctx, slog.LevelInfo) {
		logger.InfoContext(ctx, "go-redis", "line", fmt.Sprintf(format, args...))
	}
}
