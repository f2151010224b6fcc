package endpoint

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend/kit"
)

// A clientLogger is the logger of go-redis, which has only one for the whole process. It writes to the logger of the
// context, or else to that of the Locker that was opened last.
type clientLogger struct{ last atomic.Pointer[slog.Logger] }

var (
	clientLog     clientLogger
	installLogger = sync.OnceFunc(func() { redis.SetLogger(&clientLog) })
)

// LogTo makes go-redis write its own lines to the logger of ctx instead of standard error. Without such a logger, the
// lines are discarded.
func LogTo(ctx context.Context) {
	logger, _ := kit.LoggerOf(ctx)
	clientLog.last.Store(logger)
	installLogger()
}

// Printf implements go-redis' logger.
func (l *clientLogger) Printf(ctx context.Context, format string, args ...any) {
	logger := l.last.Load()
	if given, ok := kit.LoggerOf(ctx); ok {
		logger = given
	}
	if logger != nil && logger.Enabled(ctx, slog.LevelInfo) {
		logger.InfoContext(ctx, "go-redis", "line", fmt.Sprintf(format, args...))
	}
}
