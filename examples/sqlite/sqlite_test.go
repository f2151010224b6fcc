package sqlite

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

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
		}
	})
}
