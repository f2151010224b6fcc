package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/process"
)

// TestMain serves the suite where it has started this program as another process.
func TestMain(m *testing.M) {
	process.Main(func(ctx context.Context, path string) (backend.Backend, error) { return Open(ctx, path) })
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		path := filepath.Join(t.TempDir(), "locks.db")
		admin, err := Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { admin.Close() })
		return conformance.Harness{
			Open: func(ctx context.Context) (backend.Backend, error) { return Open(ctx, path) },
			Evict: func(ctx context.Context, key string) error {
				_, err := admin.db.ExecContext(ctx, `DELETE FROM locks WHERE key = ?`, []byte(key))
				return err
			},
			Process: process.Self(path),
		}
	})
}
