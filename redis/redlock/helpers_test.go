package redlock

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/redistest"
)

const soon = storetest.Soon

// patient is a parameter for tests that need replies in time, even if the race detector and other packages keep the
// machine busy.
const patient = "timeout=10s"

// attempts is how many times a measurement is tried. A busy machine is slow only now and then, but a fault makes every
// attempt slow.
const attempts = 3

type outcome = storetest.Outcome

// Helpers that the tests of all stores share.
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

// A fleet is the set of servers of a Backend under test.
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

// proxies starts a proxy in front of each node, and returns the proxies and their addresses.
func (f *fleet) proxies() (proxies []*storetest.Proxy, addrs []string) {
	for _, n := range f.nodes {
		p := storetest.NewProxy(f.t, n.Addr)
		proxies, addrs = append(proxies, p), append(addrs, p.Addr)
	}
	return proxies, addrs
}

// url returns the fleet's URL, with params added.
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

// bootstrap gives every node its vote at once.
func (f *fleet) bootstrap() {
	f.t.Helper()
	for _, n := range f.nodes {
		f.bless(n)
	}
}

// bless gives one node its vote at once, as an operator may do who knows that no lease is live.
func (f *fleet) bless(n *servers.Server) {
	f.t.Helper()
	if err := redistest.Raw(f.t, n.Addr).Set(context.Background(), newNaming(endpoint.DefaultNamespace).birth(), birthNew,
		0).Err(); err != nil {
		f.t.Fatal(err)
	}
}

// evict deletes the lock of key from every node.
func (f *fleet) evict(ctx context.Context, key string) error {
	for _, n := range f.nodes {
		c := redis.NewClient(&redis.Options{Addr: n.Addr}) // not redistest.Raw, because callers repeat this very often
		err := c.Del(ctx, newNaming(endpoint.DefaultNamespace).lock(key)).Err()
		if err = errors.Join(err, c.Close()); err != nil {
			return err
		}
	}
	return nil
}

// keys returns the names of all locks on a node.
func (f *fleet) keys(n *servers.Server) []string {
	f.t.Helper()
	list, err := redistest.Raw(f.t, n.Addr).Keys(context.Background(),
		newNaming(endpoint.DefaultNamespace).lock("*")).Result()
	if err != nil {
		f.t.Fatal(err)
	}
	return list
}

// waitIdle waits until a client has no request in progress. Then every node has received what the client acquired,
// renewed and released.
func waitIdle(t testing.TB, r *Backend) {
	t.Helper()
	until(t, soon, "nothing is under way", r.leases.Idle)
}

// whole waits until every node has the lease and the client has recorded this. Acquire does not promise that, because
// it returns when a quorum has the lease. A renewal puts the lease back on a node that was too slow.
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

// through returns the URL of the nodes at addrs, some of which may be proxies.
func through(addrs []string, params ...string) string {
	for _, a := range addrs {
		params = append(params, paramNode+"="+url.QueryEscape("redis://"+a))
	}
	return "redis+redlock:?" + strings.Join(params, "&")
}
