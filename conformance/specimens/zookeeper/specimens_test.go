package zookeeper

import (
	"context"
	"errors"
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
	server := servers.ZooKeeper(t)
	b, err := Open(t.Context(), server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	admin := b.(*store)
	specimens.Prove(t, Collection, func(t *testing.T, open specimens.Open) conformance.Harness {
		return conformance.Harness{
			Open:  func(ctx context.Context) (backend.Backend, error) { return open(ctx, server.Addr) },
			Evict: func(ctx context.Context, key string) error { return evict(ctx, admin, key) },
			Many:  20,
		}
	})
}

// evict deletes the holder's node.
func evict(ctx context.Context, s *store, key string) error {
	names, err := s.queue(ctx, key)
	if err == nil && len(names) == 0 {
		err = errors.New("nobody holds the key")
	}
	if err != nil {
		return err
	}
	return s.delete(ctx, folder(key)+"/"+names[0])
}
