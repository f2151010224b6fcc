package etcd

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/servers"
)

func TestConformance(t *testing.T) {
	s := servers.Etcd(t)
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		h := harness(t, s)
		h.Linked, h.Process = link.URL("etcd://"+s.Addr), process.Self("etcd://"+s.Addr)
		return h
	})
}

func TestConformanceCurrent(t *testing.T) {
	s := servers.EtcdCurrent(t)
	conformance.Run(t, func(t *testing.T) conformance.Harness { return harness(t, s) })
}

func harness(t *testing.T, s *servers.Server) conformance.Harness {
	var proxies sync.Map // client → its own
	return conformance.Harness{
		Open: func(ctx context.Context) (backend.Backend, error) {
			p := proxyOfItsOwn(t, s.Addr)
			b, err := openURL(ctx, "etcd://"+p.Addr)
			if err != nil {
				return nil, err
			}
			proxies.Store(b, p)
			return b, nil
		},
		Evict:        func(ctx context.Context, key string) error { return evict(ctx, raw(t, s.Addr), key) },
		Freeze:       s.Freeze,
		Thaw:         s.Thaw,
		Restart:      func() { s.Kill(); s.Start() },
		RestartEmpty: s.RestartEmpty(),
		Cut: func(client backend.Backend) {
			p, _ := proxies.Load(client)
			p.(*proxy).cut()
		},
	}
}

// proxyOfItsOwn starts a proxy whose goroutines the suite does not take for the client's: it finds those by their label.
func proxyOfItsOwn(t *testing.T, addr string) *proxy {
	made := make(chan *proxy)
	go func() {
		pprof.SetGoroutineLabels(context.Background())
		made <- newProxy(t, addr)
	}()
	return <-made
}

func TestConformanceCluster(t *testing.T) { conformCluster(t, servers.EtcdCluster(t, 3)) }

func TestConformanceClusterCurrent(t *testing.T) { conformCluster(t, servers.EtcdClusterCurrent(t, 3)) }

func conformCluster(t *testing.T, c *servers.EtcdMembers) {
	url := "etcd://" + strings.Join(addrs(c), ",") + "/locks/of/mine"
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		h := conformance.Harness{
			Open: func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, url) },
			Evict: func(ctx context.Context, key string) error {
				return evictIn(ctx, raw(t, addrs(c)...), "locks/of/mine", key)
			},
			Outage: outage,
		}
		b, err := openURL(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		for i, s := range c.Servers {
			m := conformance.Member{Stop: s.Kill, Start: s.Start, StartEmpty: func() { c.StartEmpty(i) }}
			if b.Guarantees().EarlyLoss == "" { // else a leader that was paused may end leases, by its version
				m.Freeze, m.Thaw = s.Freeze, s.Thaw
			}
			h.Members = append(h.Members, m)
		}
		return h
	})
}

// outage bounds the time without service after one of three members has failed: an election takes one to two seconds, an
// attempt that goes to a frozen member a quarter of Options.Timeout. On two busy processors it was 7.6 s.
const outage = 20 * time.Second

func addrs(c *servers.EtcdMembers) []string {
	var list []string
	for _, s := range c.Servers {
		list = append(list, s.Addr)
	}
	return list
}

// evict ends the lease of key's holder, as "etcdctl lease revoke" does. TestDeletedKeyIsLost is about a key that is
// deleted while its lease lives on.
func evict(ctx context.Context, c *clientv3.Client, key string) error {
	return evictIn(ctx, c, defaultNamespace, key)
}

func evictIn(ctx context.Context, c *clientv3.Client, namespace, key string) error {
	resp, err := c.Get(ctx, naming{namespace}.prefix(key), clientv3.WithFirstCreate()...)
	if err != nil {
		return err
	}
	if len(resp.Kvs) == 0 {
		return fmt.Errorf("nobody holds %q", key)
	}
	_, err = clientv3.RetryLeaseClient(c).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: resp.Kvs[0].Lease})
	return err
}
