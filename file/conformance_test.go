//go:build linux || darwin

package file_test

import (
	"context"
	"testing"

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
		}
	})
}
