package redlock

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/redistest"
)

const soon = storetest.Soon

// attempts is how often something is measured at most: a busy machine is slow now and then, what takes too long for a
// reason does so every time.
const attempts = 3

type outcome = storetest.Outcome

// What all stores' tests do.
var (
	req          = storetest.Try
	waiting      = storetest.Wait
	acquire      = storetest.Acquire
	release      = storetest.Release
	until        = storetest.Until
	startAcquire = storetest.Start
	granted      = storetest.Granted
	together     = storetest.Together
	cycle        = storetest.Cycle
)

// A fleet is the servers of a store under test.
type fleet struct {
	t     testing.TB
	nodes []*servers.Server
}

func startFleet(t testing.TB, n int, args ...string) *fleet {
	t.Helper()
	f := &fleet{t: t}
	for range n {
		f.nodes = append(f.nodes, servers.Redis(t, args...))
	}
	return f
}

// proxies are one before each node, with their addresses.
func (f *fleet) proxies() (proxies []*storetest.Proxy, addrs []string) {
	for _, n := range f.nodes {
		p := storetest.NewProxy(f.t, n.Addr)
		proxies, addrs = append(proxies, p), append(addrs, p.Addr)
	}
	return proxies, addrs
}

// url is the fleet's URL, with more parameters.
func (f *fleet) url(params ...string) string {
	var addrs []string
	for _, n := range f.nodes {
		addrs = append(addrs, n.Addr)
	}
	u := "redis+redlock://" + strings.Join(addrs, ",")
	if len(params) > 0 {
		u += "?" + strings.Join(params, "&")
	}
	return u
}

// bootstrap lets every node vote at once.
func (f *fleet) bootstrap() {
	f.t.Helper()
	for _, n := range f.nodes {
		f.bless(n)
	}
}

// bless lets one node vote at once, as an operator may who knows that no lease is live.
func (f *fleet) bless(n *servers.Server) {
	f.t.Helper()
	if err := redistest.Raw(f.t, n.Addr).Set(context.Background(), newNaming(endpoint.DefaultNamespace).birth(), birthNew,
		0).Err(); err != nil {
		f.t.Fatal(err)
	}
}

// evict makes every node forget a lease.
func (f *fleet) evict(ctx context.Context, key string) error {
	for _, n := range f.nodes {
		if err := redistest.Raw(f.t, n.Addr).Del(ctx, newNaming(endpoint.DefaultNamespace).lock(key)).Err(); err != nil {
			return err
		}
	}
	return nil
}

// keys are all names of locks at a node.
func (f *fleet) keys(n *servers.Server) []string {
	f.t.Helper()
	list, err := redistest.Raw(f.t, n.Addr).Keys(context.Background(),
		newNaming(endpoint.DefaultNamespace).lock("*")).Result()
	if err != nil {
		f.t.Fatal(err)
	}
	return list
}

// waitIdle waits until a client has nothing under way: every node has heard of what it has acquired, renewed and
// released.
func waitIdle(t testing.TB, r *Backend) {
	t.Helper()
	until(t, soon, "nothing is under way", r.leases.Idle)
}

// whole waits until every node has a lease and its client knows, which Acquire does not promise: it returns when a
// quorum has it. A renewal puts it back on a node that took too long.
func (f *fleet) whole(r *Backend, l backend.Lease) {
	f.t.Helper()
	life := l.(*kit.Life)
	until(f.t, soon, "every node has the lease", func() bool {
		waitIdle(f.t, r)
		if len(f.having(life.Key())) == len(f.nodes) {
			return true
		}
		_ = l.Renew(context.Background(), life.Data.(*claim).ttl)
		return false
	})
}

func openURL(ctx context.Context, url string) (*Backend, error) {
	b, _, err := driver.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return b.(*Backend), nil
}

func (f *fleet) open(params ...string) *Backend {
	f.t.Helper()
	return opened(f.t, f.url(params...))
}

func opened(t testing.TB, url string) *Backend {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := openURL(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// through is the URL of nodes of which some are reached by proxies.
func through(addrs []string, params ...string) string {
	for _, a := range addrs {
		params = append(params, paramNode+"="+url.QueryEscape("redis://"+a))
	}
	return "redis+redlock:?" + strings.Join(params, "&")
}
