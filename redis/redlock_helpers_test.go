package redis

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// durable are the options of a server that forgets nothing.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// A fleet is the servers of a Redlock under test.
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
	if err := raw(f.t, n.Addr).Set(context.Background(), newRedlockNaming(defaultNamespace).birth(), birthNew, 0).Err(); err != nil {
		f.t.Fatal(err)
	}
}

// evict makes every node forget a lease.
func (f *fleet) evict(ctx context.Context, key string) error {
	for _, n := range f.nodes {
		if err := raw(f.t, n.Addr).Del(ctx, newRedlockNaming(defaultNamespace).lock(key)).Err(); err != nil {
			return err
		}
	}
	return nil
}

// keys are all names of locks at a node.
func (f *fleet) keys(n *servers.Server) []string {
	f.t.Helper()
	list, err := raw(f.t, n.Addr).Keys(context.Background(), newRedlockNaming(defaultNamespace).lock("*")).Result()
	if err != nil {
		f.t.Fatal(err)
	}
	return list
}

func openRedlockURL(ctx context.Context, url string) (*Redlock, error) {
	b, _, err := backend.DefaultMux.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return b.(*Redlock), nil
}

func (f *fleet) open(params ...string) *Redlock {
	f.t.Helper()
	return openedRedlock(f.t, f.url(params...))
}

func openedRedlock(t testing.TB, url string) *Redlock {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := openRedlockURL(ctx, url)
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
