package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/anylock/lock"
)

// These methods of a zero Locker return ErrInvalid, and do not panic.
func TestZeroLocker(t *testing.T) {
	t.Parallel()
	var l lock.Locker
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Acquire":    func() error { _, err := l.Acquire(ctx, "k"); return err },
		"TryAcquire": func() error { _, err := l.TryAcquire(ctx, "k", lock.Reentrant()); return err },
		"Do": func() error {
			return l.Do(ctx, "k", func(context.Context, *lock.Lease) error { t.Error("it runs"); return nil })
		},
		"Resume":   func() error { _, err := l.Resume(ctx, "k", "owner"); return err },
		"Inspect":  func() error { _, err := l.Ops().Inspect(ctx, "k"); return err },
		"List":     func() error { _, err := l.Ops().List(ctx, ""); return err },
		"Break":    func() error { return l.Ops().Break(ctx, "k", "owner") },
		"Examine":  func() error { _, err := l.Ops().Examine(ctx); return err },
		"NotReady": func() error { return l.Ops().NotReady() },
		"Ping":     func() error { return l.Ops().Ping(ctx) },
		"Shutdown": func() error { return l.Shutdown(ctx) },
		"Close":    l.Close,
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p := recover(); p != nil {
					t.Error(p)
				}
			}()
			if err := call(); !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), "without Open or New") {
				t.Error(err)
			}
		})
	}
	_ = l.Guarantees()
}
