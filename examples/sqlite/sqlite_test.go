package sqlite

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/process"
)

// TestMain serves the suite if the suite has started this program as another process.
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
			Process: func(ctx context.Context, skew time.Duration) (conformance.Process, error) {
				p, err := process.Self(path)(ctx, skew)
				return betweenWrites{p, admin}, err
			},
		}
	})
}

// If a process is stopped while it writes, all other writers wait, including those of other checks: see the comment of the
// package. The suite may stop these processes at any other moment.
type betweenWrites struct {
	conformance.Process
	admin *Store
}

// Freeze stops the process while another one, the admin, is the writer.
func (p betweenWrites) Freeze() {
	freeze := func(*sql.Tx, int64) error {
		p.Process.Freeze()
		return nil
	}
	if err := p.admin.change(context.Background(), freeze); err != nil {
		panic(err)
	}
}
