package endpoint

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend/kit"
)

// LogTo makes go-redis write its own lines to the logger of ctx instead of standard error. go-redis has only one logger
// for the whole process: that of the last call counts. Without a logger, the lines are discarded.
func LogTo(ctx context.Context) {
	logger, _ := kit.LoggerOf(ctx)
	redis.SetLogger(clientLogger{cmp.Or(logger, slog.New(slog.DiscardHandler))})
}

type clientLogger struct{ *slog.Logger }

// Printf implements go-redis' logger.
func (l clientLogger) Printf(ctx context.Context, format string, args ...any) {
	if l.Enabled(ctx, slog.LevelInfo) {
		l.InfoContext(ctx, "go-redis", "line", fmt.Sprintf(format, args...))
	}
}
