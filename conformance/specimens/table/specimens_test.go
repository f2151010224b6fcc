package table

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/specimens"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestMain(m *testing.M) {
	specimens.Main(Collection)
	goleak.VerifyTestMain(m)
}

func TestSpecimens(t *testing.T) {
	storetest.Long(t, "each specimen and its twin go through the checks that distinguish them")
	s := servers.Postgres(t, "max_connections=400")
	specimens.Prove(t, Collection, func(t *testing.T, open specimens.Open) conformance.Harness {
		return conformance.Harness{
			Open:  func(ctx context.Context) (backend.Backend, error) { return open(ctx, s.Addr) },
			Evict: func(ctx context.Context, key string) error { return evict(ctx, s.PostgresURL(), key) },
		}
	})
}

// evict frees the key's row.
func evict(ctx context.Context, url, key string) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	_, err = c.Exec(ctx, `UPDATE locks SET owner = '', expires = '-infinity' WHERE key = $1`, []byte(key))
	return err
}
