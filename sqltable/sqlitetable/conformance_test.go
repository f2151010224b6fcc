package sqlitetable

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/anylock/lock/backend"
	backenddriver "github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/storetest"
)

func openURL(ctx context.Context, raw string) (backend.Backend, error) {
	b, _, err := backenddriver.Open(ctx, raw)
	return b, err
}

func TestMain(m *testing.M) {
	process.Main(openURL)
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	storetest.Main(t, func(t *testing.T) conformance.Harness {
		path := filepath.Join(t.TempDir(), "data.db")
		raw := "sqlite://" + path + "?timeout=10s"
		admin, err := open(backenddriver.URL{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		evictor, err := open(backenddriver.URL{Path: path}) // outside of the transaction in which a process is stopped
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { evictor.Close() })
		admin.SetMaxOpenConns(1)
		t.Cleanup(func() { admin.Close() })
		exec := func(ctx context.Context, statement string, args ...any) error {
			_, err := admin.ExecContext(ctx, statement, args...)
			return err
		}
		return conformance.Harness{
			Open:  func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, raw) },
			Evict: func(ctx context.Context, key string) error { return evict(ctx, evictor, key) },
			Process: func(ctx context.Context, skew time.Duration) (conformance.Process, error) {
				p, err := process.Self(raw)(ctx, skew)
				return betweenWrites{p, exec}, err
			},
		}
	})
}

// evict deletes the row of key, as an operator may, and returns when the next token is certain to be higher: SQLite's
// clock has milliseconds, and the deleted row had the highest token.
func evict(ctx context.Context, db *sql.DB, key string) error {
	var deleted, now int64
	const clock = `CAST(unixepoch('subsec')*1000 AS INTEGER)`
	err := errors.New("not tried")
	for range 100 { // another process writes
		if err == nil || ctx.Err() != nil {
			break
		}
		err = db.QueryRowContext(ctx, `DELETE FROM anylock WHERE name=? RETURNING `+clock, []byte(key)).Scan(&deleted)
	}
	for err == nil && now <= deleted {
		err = db.QueryRowContext(ctx, `SELECT `+clock).Scan(&now)
	}
	return err
}

// A process that is stopped while it writes keeps all others from writing. The suite may stop these processes at any
// other moment.
type betweenWrites struct {
	conformance.Process
	exec func(ctx context.Context, statement string, args ...any) error
}

// Freeze stops the process while the test is the writer.
func (p betweenWrites) Freeze() {
	ctx := context.Background()
	for p.exec(ctx, `BEGIN IMMEDIATE`) != nil { // another process writes
	}
	p.Process.Freeze()
	if err := p.exec(ctx, `COMMIT`); err != nil {
		panic(err)
	}
}
