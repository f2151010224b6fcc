package file_test

import (
	"context"
	"os"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/file"
)

func TestMain(m *testing.M) {
	process.Main(func(ctx context.Context, dir string) (backend.Backend, error) { return file.Open(ctx, dir) })
	os.Exit(m.Run())
}
