package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// A lastErrorHandler is the log handler for package lock. It keeps the last error, for the message that explains a
// loss, and prints records only with --verbose.
type lastErrorHandler struct {
	notices *notices
	verbose bool
	attrs   []slog.Attr
	last    *atomic.Value // of string
}

func newLastErrorHandler(n *notices, verbose bool) *lastErrorHandler {
	return &lastErrorHandler{notices: n, verbose: verbose, last: new(atomic.Value)}
}

// lastError returns the last error that was logged, or an empty string.
func (r *lastErrorHandler) lastError() string {
	text, _ := r.last.Load().(string)
	return text
}

// Enabled implements slog.Handler.
func (r *lastErrorHandler) Enabled(_ context.Context, level slog.Level) bool {
	return r.verbose || level >= slog.LevelWarn
}

// Handle implements slog.Handler.
func (r *lastErrorHandler) Handle(_ context.Context, record slog.Record) error {
	var line strings.Builder
	line.WriteString(record.Message)
	add := func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && a.Key == "error" {
			r.last.Store(err.Error())
		}
		fmt.Fprintf(&line, " %s=%s", a.Key, show(a.Value.String()))
		return true
	}
	for _, a := range r.attrs {
		add(a)
	}
	record.Attrs(add)
	if r.verbose {
		r.notices.add(line.String())
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (r *lastErrorHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *r
	with.attrs = append(with.attrs[:len(with.attrs):len(with.attrs)], attrs...)
	return &with
}

// WithGroup implements slog.Handler. It ignores the name, because package lock uses no groups.
func (r *lastErrorHandler) WithGroup(string) slog.Handler { return r }
