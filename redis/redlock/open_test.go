package redlock

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/redis/internal/exchange"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/redistest"
)

// URLs that cannot describe a fleet are rejected before any request.
func TestURLRefuses(t *testing.T) {
	for u, hint := range map[string]string{
		"redis+redlock://h1,h2":                                                  "odd number",
		"redis+redlock://h1":                                                     "odd number",
		"redis+redlock://h1,h2,h3,h4":                                            "odd number",
		"redis+redlock://":                                                       "odd number",
		"redis+redlock:":                                                         "odd number",
		"redis+redlock://h1,h2,h1":                                               "twice",
		"redis+redlock://h1,h2,h2:6379":                                          "twice",
		"redis+redlock://h1,h2?lock_node=redis%3A%2F%2Fh2":                       "twice",
		"redis+redlock://u:hunter2@h1,h2,h3/x":                                   "database",
		"redis+redlock://h1,h2,h3?lock_ttl=3s":                                   "lock_ttl",
		"redis+redlock://h1,h2,h3?lock_min_replicas=1":                           "lock_min_replicas",
		"redis+redlock://h1,h2,h3?lock_max_ttl=3":                                "lock_max_ttl",
		"redis+redlock://h1,h2,h3?lock_max_ttl=-3s":                              "lock_max_ttl",
		"redis+redlock://h1,h2,h3?lock_max_ttl=1ms":                              "longest ttl",
		"redis+redlock://h1,h2,h3?lock_namespace=a{b":                            "brace",
		"redis+redlock://h1,h2,h3?nonsense=1":                                    "nonsense",
		"redis+redlock://h1,h2,:1":                                               "host",
		"redis+redlock:/2?lock_node=redis%3A%2F%2Fh2":                            "path",
		"redis+redlock://h1,h2?lock_node=redis%2Bcluster%3A%2F%2Fu:hunter2%40h3": "the schemes of a redlock node are redis, rediss, redis+unix",
		"rediss+redlock://h1,h2,h3?cacert=/nonexistent":                          "cacert",
		"redis+redlock://h1,h2?lock_node=nonsense":                               "",
		"redis+redlock://h1,h2?lock_node=redis%3A%2F%2Fh3%3Ftimeout%3D1s":        `"timeout"`,
		"redis+redlock://h1,h2?lock_node=%zz":                                    "escape",
	} {
		r, err := openURL(context.Background(), u)
		if err == nil {
			_ = r.Close()
			t.Errorf("%s: opened", u)
			continue
		}
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), hint) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %q, want ErrInvalid that speaks of %q", u, err, hint)
		}
	}
}

// A URL without hosts has nothing that applies only to hosts, because the nodes would silently be without it.
func TestURLWithoutHostsRefuses(t *testing.T) {
	nodes := "lock_node=redis%3A%2F%2Fh1&lock_node=redis%3A%2F%2Fh2&lock_node=redis%3A%2F%2Fh3"
	secret := strings.Replace(nodes, "h1", "u:hunter1%40h1", 1)
	for u, hint := range map[string]string{
		"redis+redlock:?" + nodes + "&max_ttl=5m":                "max_ttl",
		"redis+redlock:?" + nodes + "&pool_size=7":               "pool_size",
		"redis+redlock:?pool_size=7&" + nodes:                    "pool_size",
		"redis+redlock:?" + secret + "&hunter2=x":                "%26",
		"redis+redlock:?lock_node=redis%3A//u:1&hunter2%40h1":    "%26",
		"redis+redlock://u:hunter2@?" + nodes:                    "user",
		"rediss+redlock:?" + nodes:                               "TLS",
		"rediss+redlock:?" + nodes + "&cacert=/nonexistent":      "TLS",
		"rediss+redlock:?" + nodes + "&cert=/none&key=/nonesuch": "TLS",
	} {
		r, err := openURL(context.Background(), u)
		if err == nil {
			_ = r.Close()
			t.Errorf("%s: opened", u)
			continue
		}
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), hint) ||
			!strings.Contains(err.Error(), paramNode) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %q, want ErrInvalid that speaks of %q and of %s", u, err, hint, paramNode)
		}
	}
}

// If go-redis cannot satisfy the options of a later node, the clients of the earlier nodes are closed.
func TestURLRefusedByClient(t *testing.T) {
	t.Parallel()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := openURL(t.Context(), through([]string{l.Addr().String() + "?min_idle_conns=1", "127.0.0.1:1",
		"127.0.0.2:1?pool_size=99999999999"}))
	if err == nil {
		_ = r.Close()
	}
	if !errors.Is(err, backend.ErrInvalid) {
		t.Fatalf("%v, want ErrInvalid", err)
	}
	if err := l.SetDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept() // the idle connection of the first client
	if err != nil {
		return // the client was closed before it dialled
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); isTimeout(err) {
		t.Error("a connection of the first client is still open")
	}
}

func TestURL(t *testing.T) {
	for u, want := range map[string]string{
		"redis+redlock://h1,h2:1,[::1]:2/3":         "h1:6379/3 h2:1/3 [::1]:2/3",
		"rediss+redlock://u:p%40x@h1,h2,h3":         "h1:6379/0+u:p@x+tls h2:6379/0+u:p@x+tls h3:6379/0+u:p@x+tls",
		"redis+redlock://:p@h1,h2,h3/1?pool_size=7": "h1:6379/1+:p h2:6379/1+:p h3:6379/1+:p",
		//
		"redis+redlock:?lock_node=redis%3A%2F%2Fa%3Ap%40h1%2F4&lock_node=rediss%3A%2F%2Fh2&lock_node=redis%2Bunix%3A%2F%2F%2Frun%2Fr.sock": "h1:6379/4+a:p h2:6379/0+tls /run/r.sock/0",
	} {
		parsed, err := registered(t).Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		list, err := nodeOptions(parsed)
		if err != nil {
			t.Errorf("%s: %v", u, err)
			continue
		}
		var got []string
		for _, o := range list {
			s := o.Addr + "/" + string(rune('0'+o.DB))
			if o.Username+o.Password != "" {
				s += "+" + o.Username + ":" + o.Password
			}
			if o.TLSConfig != nil {
				s += "+tls"
			}
			got = append(got, s)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", u, strings.Join(got, " "), want)
		}
	}
}

// Opening fails if a server cannot be a node. The error names the reason.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	evicting := servers.Redis(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	set := servers.RedisSentinel(t)
	cluster := servers.RedisCluster(t, 3)
	locked := servers.Redis(t, "--requirepass", "other")
	const closed, closedToo = "127.0.0.1:1", "127.0.0.2:1"
	_, port, _ := net.SplitHostPort(f.nodes[0].Addr)
	addrs := []string{f.nodes[0].Addr, f.nodes[1].Addr}
	for third, hint := range map[string]string{
		set.Replica.Addr:           "replica",
		evicting.Addr:              "noeviction",
		cluster[0].Addr:            "cluster",
		"localhost:" + port:        "one server",
		"u:hunter2@" + locked.Addr: "WRONGPASS",
	} {
		r, err := openURL(context.Background(), through(append(addrs, third)))
		for n := 1; n < attempts && err == nil; n++ { // opening does not wait long for a slow node
			_ = r.Close()
			r, err = openURL(context.Background(), through(append(addrs, third)))
		}
		if err == nil {
			_ = r.Close()
			t.Errorf("%s: opened", third)
			continue
		}
		if !strings.Contains(err.Error(), hint) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %q, want it to speak of %q", third, err, hint)
		}
	}
	// One node of three may be down, but not two.
	opened(t, through(append(addrs, closed)))
	r, err := openURL(context.Background(), through([]string{addrs[0], closed, closedToo}))
	if err == nil {
		_ = r.Close()
		t.Error("opened without a quorum")
	}
}

// If two nodes turn out, after opening, to be the same server, they are no quorum.
func TestSameServerLater(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	clients := []*redis.Client{redistest.Raw(t, f.nodes[0].Addr), redistest.Raw(t, f.nodes[1].Addr),
		redistest.Raw(t, "localhost"+f.nodes[1].Addr[strings.LastIndex(f.nodes[1].Addr, ":"):])}
	r, err := onClients(clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f.nodes[0].Freeze()
	defer f.nodes[0].Thaw()
	if l, err := r.Acquire(context.Background(), req("k", 30*time.Second)); err == nil {
		t.Fatalf("granted by one server under two names: %v", l)
	}
}

// A node that turns out, after opening, to be unusable is inspected at most once a second, however many votes are
// requested.
func TestUnusableNodeIsSpared(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	r := f.open()
	release(t, acquire(t, r, req("warm", time.Minute)))
	waitIdle(t, r)
	c := redistest.Raw(t, f.nodes[2].Addr)
	if err := errors.Join(
		c.ConfigSet(t.Context(), "maxmemory", "100mb").Err(),
		c.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(),
		c.Del(t.Context(), r.naming.birth()).Err(),
	); err != nil {
		t.Fatal(err)
	}
	begun, before := time.Now(), redistest.Commands(t, c)
	for range 100 {
		release(t, acquire(t, r, req("k", time.Minute)))
	}
	waitIdle(t, r)
	most := 2 + int(time.Since(begun)/time.Second)
	if n := redistest.Commands(t, c)["config|get"] - before["config|get"]; n < 1 || n > most {
		t.Errorf("%d handshakes with an unusable node, want 1 to %d", n, most)
	}
}

// New reports the same guarantees as opening by URL. It rejects a node that evicts keys, and fails without a quorum.
func TestNewLearnsWhatOpeningLearns(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	onClientsOf := func(last string) (*Backend, error) {
		return New(t.Context(), []*redis.Client{redistest.Raw(t, f.nodes[0].Addr), redistest.Raw(t, f.nodes[1].Addr),
			redistest.Raw(t, last)}, nil)
	}
	r, err := onClientsOf(f.nodes[2].Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if g, want := r.Guarantees(), opened(t, f.url()).Guarantees(); g != want {
		t.Errorf("New: %+v\nby URL: %+v", g, want)
	}
	evicting := servers.Redis(t, "--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru")
	if r, err := onClientsOf(evicting.Addr); err == nil {
		_ = r.Close()
		t.Error("a node that evicts keys was accepted")
	}
	dead := []*redis.Client{redistest.Raw(t, f.nodes[0].Addr)}
	for _, addr := range []string{"127.0.0.1:1", "127.0.0.1:2"} {
		c := redis.NewClient(&redis.Options{Addr: addr})
		defer c.Close()
		dead = append(dead, c)
	}
	if r, err := New(t.Context(), dead, nil); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("no quorum: %v", err)
		if err == nil {
			_ = r.Close()
		}
	}
}

func TestNewRefuses(t *testing.T) {
	one, two := redis.NewClient(&redis.Options{Addr: "h1:1"}), redis.NewClient(&redis.Options{Addr: "h2:1"})
	defer one.Close()
	defer two.Close()
	failover := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"h:1"}})
	defer failover.Close()
	for _, list := range [][]*redis.Client{nil, {one}, {one, two}, {one, two, one}, {one, two, nil},
		{one, two, failover}} {
		if _, err := New(t.Context(), list, nil); !errors.Is(err, backend.ErrInvalid) &&
			!errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("%d nodes: %v", len(list), err)
		}
	}
}

// Callers' clients with default options ignore deadlines, but time limits still hold.
func TestCallersClients(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	var clients []*redis.Client
	for _, n := range f.nodes {
		clients = append(clients, redistest.Raw(t, n.Addr))
	}
	r, err := New(t.Context(), clients, &Options{MaxTTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	release(t, acquire(t, r, req("k", time.Minute)))
	waitIdle(t, r) // the release has reached every node
	f.nodes[2].Freeze()
	defer f.nodes[2].Thaw()
	const most = 2500 * time.Millisecond // go-redis' own read timeout is 3 s
	for attempt := 1; ; attempt++ {
		begun := time.Now()
		release(t, acquire(t, r, req("k", time.Minute)))
		took := time.Since(begun)
		if took <= most {
			break
		}
		if attempt == attempts {
			t.Fatalf("acquire and release with a frozen node took %v", took)
		}
	}
}

// New returns within OpenTimeout although the clients ignore deadlines and go on with their requests.
func TestNewOnFleetThatHangs(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	var clients []*redis.Client
	for _, n := range f.nodes {
		clients = append(clients, redistest.Raw(t, n.Addr))
		n.Freeze()
		defer n.Thaw()
	}
	redistest.FailsInTime(t, func() (io.Closer, error) { return New(t.Context(), clients, nil) })
}

// Opening waits for a node that hangs for at most about openWait.
func TestOpenWithHungNode(t *testing.T) {
	// not parallel, because it measures how long opening takes
	f := startFleet(t, 3, redistest.Durable...)
	f.bootstrap()
	for _, n := range f.nodes {
		n.Freeze()
		const most = openWait + openWait/2
		for attempt := 1; ; attempt++ {
			begun := time.Now()
			r, err := openURL(context.Background(), f.url())
			took := time.Since(begun)
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Close()
			if took < most {
				break
			}
			if attempt == attempts {
				t.Fatalf("opening with one node of three hung took %v", took)
			}
		}
		n.Thaw()
	}
}

// A handshake takes several round trips. Opening succeeds even on a slow link, because a handshake may take longer than
// a request.
func TestOpenOnSlowLink(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	f.bootstrap()
	var proxies []*storetest.Proxy
	var addrs []string
	for _, n := range f.nodes {
		p := storetest.NewProxy(t, n.Addr)
		p.Set(func(p *storetest.Proxy) { p.Delay = exchange.DefaultTimeout / 8 })
		proxies, addrs = append(proxies, p), append(addrs, p.Addr)
	}
	r := opened(t, through(addrs))
	for _, p := range proxies {
		p.Set(func(p *storetest.Proxy) { p.Delay = 0 })
	}
	release(t, acquire(t, r, req("k", time.Minute)))
}
