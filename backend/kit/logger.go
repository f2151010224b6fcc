package kit

import (
	"context"
	"log/slog"
)

type loggerKey struct{}

// WithLogger returns a context that carries logger, for messages that a store's client library logs by itself.
func WithLogger(ctx context.Context, logger *slog.Logger) context.Context {
	return context.WithValue(ctx, loggerKey{}, logger)
}

// LoggerOf returns the logger that WithLogger has added to ctx, if any.
func LoggerOf(ctx context.Context) (*slog.Logger, bool) {
	logger, ok := ctx.Value(loggerKey{}).(*slog.Logger)
	return logger, ok
}
