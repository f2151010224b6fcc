//go:build linux || darwin

package file_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/file"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		dir := t.TempDir()
		return conformance.Harness{
			Open:    func(ctx context.Context) (backend.Backend, error) { return file.Open(ctx, dir) },
			Evict:   func(ctx context.Context, key string) error { return file.Evict(ctx, dir, key) },
			Process: process.Self(dir),

			RestartEmpty: func() { remove(t, dir) },
		}
	})
}

// remove removes the directory, although clients may create files there meanwhile.
func remove(t *testing.T, dir string) {
	var err error
	for begun := time.Now(); time.Since(begun) < 5*time.Second; {
		if err = os.RemoveAll(dir); err == nil {
			return
		}
		time.Sleep(time.Millisecond) // sleeps: before the next attempt
	}
	t.Errorf("remove the directory: %v", err)
}
