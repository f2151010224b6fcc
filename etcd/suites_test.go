package etcd

import (
	"context"
	"flag"
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
	"github.com/anylock/lock/internal/storetest"
)

// shortElections makes a server grant leases of one second, because the least TTL is 1.5 times the election timeout. A
// single server holds no elections.
var shortElections = []string{"--heartbeat-interval", "60", "--election-timeout", "600"}

// The suites are the last tests of the package, except quick ones, because they overlap with the tests after them: see
// runAhead. The suite on a cluster overlaps with the suite on a single server.
func TestConformance(t *testing.T) {
	s := servers.Etcd(t, shortElections...)
	runAhead(t, storetest.Main, func(t *testing.T) conformance.Harness {
		h := harness(t, s, s.Addr)
		h.Linked, h.Process = link.URL("etcd://"+s.Addr), process.Self("etcd://"+s.Addr)
		return h
	})
}

func TestConformanceClusterCurrent(t *testing.T) {
	storetest.Long(t, "another cluster")
	c := servers.EtcdClusterCurrent(t, 3)
	runAhead(t, storetest.Core("members"), func(t *testing.T) conformance.Harness { return clusterHarness(t, c) })
}

func TestConformanceCurrent(t *testing.T) {
	storetest.Long(t, "the current etcd is built")
	s := servers.EtcdCurrent(t)
	runAhead(t, storetest.Core(), func(t *testing.T) conformance.Harness { return harness(t, s, s.Addr) })
}

// TestConformanceProxy reaches the server through "etcd grpc-proxy". It injects faults of the server, and of the link
// to the proxy.
func TestConformanceProxy(t *testing.T) {
	storetest.Long(t, "another topology")
	s := servers.Etcd(t, shortElections...)
	p := servers.EtcdProxy(t, s.Addr)
	storetest.Core("renewal", "ownership", "evict", "cuts")(t, func(t *testing.T) conformance.Harness {
		h := harness(t, s, p.Addr)
		h.Linked, h.Process = link.URL("etcd://"+p.Addr), process.Self("etcd://"+p.Addr)
		return h
	})
}

func TestConformanceCluster(t *testing.T) {
	storetest.Long(t, "a cluster")
	c := servers.EtcdCluster(t, 3)
	storetest.Core("members")(t, func(t *testing.T) conformance.Harness { return clusterHarness(t, c) })
}

// runAhead runs a suite, and lets the next test begin when only the checks that inject faults remain. Each of these has
// the store to itself, and mostly waits. All others load the machine, so two suites must not run them at the same time.
func runAhead(t *testing.T, run storetest.Suite, newHarness func(t *testing.T) conformance.Harness) {
	t.Helper()
	begun := make(chan struct{})
	tell := sync.OnceFunc(func() { close(begun) })
	run(t, func(t *testing.T) conformance.Harness { return tellFaults(newHarness(t), tell) })
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return // only some checks run, perhaps none that injects faults
	}
	// most is reached only if the store is broken, so that no check gets as far as its fault.
	const most = 5 * time.Minute
	select {
	case <-begun:
	case <-time.After(most):
	}
	t.Parallel()
}

// tellFaults returns h with hooks that call tell before they freeze, restart or stop a server.
func tellFaults(h conformance.Harness, tell func()) conformance.Harness {
	before := func(fault func()) func() {
		if fault == nil {
			return nil
		}
		return func() { tell(); fault() }
	}
	h.Freeze, h.Restart, h.RestartEmpty = before(h.Freeze), before(h.Restart), before(h.RestartEmpty)
	for i := range h.Members {
		m := &h.Members[i]
		m.Freeze, m.Stop = before(m.Freeze), before(m.Stop)
	}
	return h
}

// harness returns the Harness for the server s, which clients reach at addr.
func harness(t *testing.T, s *servers.Server, addr string) conformance.Harness {
	var proxies sync.Map // client → its proxy
	return conformance.Harness{
		Open: func(ctx context.Context) (backend.Backend, error) {
			p := proxyOfItsOwn(t, addr)
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
		StepClock:    s.StepClock(),
		Cut: func(client backend.Backend) {
			p, _ := proxies.Load(client)
			p.(*storetest.Proxy).Cut()
		},
		Footprint: func() (int64, error) {
			all, err := raw(t, s.Addr).Get(context.Background(), "", clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil {
				return 0, err
			}
			return all.Count, nil
		},
	}
}

// proxyOfItsOwn starts a proxy whose goroutines have no label. The suite finds a client's goroutines by their label.
func proxyOfItsOwn(t *testing.T, addr string) *storetest.Proxy {
	made := make(chan *storetest.Proxy)
	go func() {
		pprof.SetGoroutineLabels(context.Background())
		made <- storetest.NewProxy(t, addr)
	}()
	return <-made
}

func clusterHarness(t *testing.T, c *servers.EtcdMembers) conformance.Harness {
	url := "etcd://" + strings.Join(addrs(c), ",") + "/locks/of/mine"
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
		if b.Guarantees().EarlyLoss == "" { // otherwise a paused leader of this version may end leases early
			m.Freeze, m.Thaw = s.Freeze, s.Thaw
		}
		h.Members = append(h.Members, m)
	}
	return h
}

// outage is the limit of the time without service after one of three members has failed. An election takes 1 to 2 s. An
// attempt at a frozen member takes a quarter of Options.Timeout. On two busy processors, the outage was 7.6 s.
const outage = 20 * time.Second

func addrs(c *servers.EtcdMembers) []string {
	var list []string
	for _, s := range c.Servers {
		list = append(list, s.Addr)
	}
	return list
}

// evict revokes the leases of key's holders, like "etcdctl lease revoke". TestDeletedKeyIsLost tests a key that is
// deleted while its lease lives on.
func evict(ctx context.Context, c *clientv3.Client, key string) error {
	return evictIn(ctx, c, defaultNamespace, key)
}

func evictIn(ctx context.Context, c *clientv3.Client, namespace, key string) error {
	get := allKeys((&Options{Namespace: namespace}).prefix(key)).get(clientv3.SortAscend)
	resp, err := c.Do(ctx, get)
	if err != nil {
		return err
	}
	contenders := resp.Get().Kvs
	if len(contenders) == 0 {
		return fmt.Errorf("nobody holds %q", key)
	}
	for i, kv := range contenders {
		if i > 0 && !(isShared(contenders[0].Key) && isShared(kv.Key)) {
			break
		}
		if _, err := clientv3.RetryLeaseClient(c).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: kv.Lease}); err != nil {
			return err
		}
	}
	return nil
}
