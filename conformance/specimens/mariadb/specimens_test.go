package mariadb

import (
	"context"
	"testing"

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
	s := servers.MariaDB(t, "--max-connections=500")
	specimens.Prove(t, Collection, func(t *testing.T, open specimens.Open) conformance.Harness {
		return conformance.Harness{
			Open: func(ctx context.Context) (backend.Backend, error) { return open(ctx, s.Addr) },
		}
	})
}
