package etcd

import (
	"context"
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

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
	s := servers.Etcd(t)
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	specimens.Prove(t, Collection, func(t *testing.T, open specimens.Open) conformance.Harness {
		return conformance.Harness{
			Open:  func(ctx context.Context) (backend.Backend, error) { return open(ctx, s.Addr) },
			Evict: func(ctx context.Context, key string) error { return evict(ctx, admin, key) },
			Many:  32,
		}
	})
}

// evict ends the lease of the key's holder.
func evict(ctx context.Context, c *clientv3.Client, key string) error {
	resp, err := c.Get(ctx, nameOf(key))
	if err != nil {
		return err
	}
	if len(resp.Kvs) == 0 {
		return errors.New("nobody holds the key")
	}
	_, err = c.Revoke(ctx, clientv3.LeaseID(resp.Kvs[0].Lease))
	return err
}
