package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/redistest"
)

// Opening fails if the server cannot keep locks. The error names the reason, but does not show the password.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections but never replies
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	master := servers.Redis(t)
	replica := servers.Redis(t, "--replicaof", "127.0.0.1", port(master.Addr))
	for url, hint := range map[string]string{
		"redis://u:hunter2@" + closed:            "refused",
		"redis://u:hunter2@" + l.Addr().String(): "timeout",
		"redis://" + clusterNode(t).Addr:         "redis+cluster://",
		"redis://" + replica.Addr:                "replica",
		"redis+cluster://" + master.Addr:         "cluster",
		"redis://u:hunter2@" + master.Addr:       "",
	} {
		refuses(t, url, hint)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := openURL(ctx, "redis://"+l.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("open with a deadline: %v", err)
	}
}

// refuses fails the test unless opening fails in time, with an error that contains hint.
func refuses(t *testing.T, url, hint string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	begun := time.Now()
	b, err := openURL(ctx, url)
	if err == nil {
		_ = b.Close()
		t.Errorf("%s: opened", url)
		return
	}
	if !strings.Contains(err.Error(), hint) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%s: %q, want it to speak of %q", driver.Redact(url), err, hint)
	}
	if took := time.Since(begun); took > endpoint.OpenTimeout+2*time.Second {
		t.Errorf("%s: refused after %v", url, took)
	}
}

func TestOpenRefusesUnknownMaster(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "Sentinels")
	set := servers.RedisSentinel(t)
	refuses(t, "redis+sentinel://"+set.Sentinels[0].Addr+"/no", "")
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// Guarantees mention a server that may evict locks, or that does not permit INFO.
func TestOpenTellsOfEviction(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	c := redistest.Raw(t, s.Addr)
	ctx := context.Background()
	early := func(url string) string { return opened(t, url).Guarantees().EarlyLoss }
	if got := early("redis://" + s.Addr); strings.Contains(got, "evict") {
		t.Errorf("a server that does not evict: %s", got)
	}
	c.ConfigSet(ctx, "maxmemory", "100mb")
	c.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru")
	if got := early("redis://" + s.Addr); !strings.Contains(got, "allkeys-lru") {
		t.Errorf("a server that evicts: %s", got)
	}
	if err := c.Do(ctx, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	if got := early("redis://app:secret@" + s.Addr); !strings.Contains(got, "not permitted") {
		t.Errorf("a server that does not let us see: %s", got)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	if _, err := New(t.Context(), ring, nil); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("ring: %v", err)
	}
	if _, err := New(t.Context(), nil, nil); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("nil client: %v", err)
	}
	s := ownDatabase(t)
	c := s.raw(t)
	for _, o := range []*Options{{Namespace: "a{b"}, {Namespace: strings.Repeat("n", 200)}, {MinReplicas: -1},
		{Timeout: -1}} {
		if _, err := New(t.Context(), c, o); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%+v: %v", *o, err)
		}
	}
	b, err := New(t.Context(), struct{ redis.UniversalClient }{c}, nil) // any other type, such as a wrapper
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := b.List(t.Context(), ""); !errors.Is(err, backend.ErrUnsupported) { // List needs the servers
		t.Errorf("list: %v, %v", keys, err)
	}
	other, err := New(t.Context(), c, &Options{Namespace: "other"})
	if err != nil {
		t.Fatal(err)
	}
	l := acquire(t, b, req("k", time.Minute))
	release(t, acquire(t, other, req("k", time.Minute))) // namespaces are independent
	done := queueUp(t, b, waiting("k", time.Minute), 1)
	release(t, l)
	release(t, granted(t, done, soon).Lease)
	for range 2 {
		if err := errors.Join(b.Close(), other.Close()); err != nil {
			t.Error(err)
		}
	}
	if err := c.Ping(context.Background()).Err(); err != nil {
		t.Errorf("the caller's client after Close: %v", err)
	}
}

// New reports the same guarantees, and fails with the same errors, as opening by URL.
func TestNewLearnsWhatOpeningLearns(t *testing.T) {
	t.Parallel()
	evicting := servers.Redis(t, "--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru")
	want := opened(t, "redis://"+evicting.Addr).Guarantees()
	b, err := New(t.Context(), redistest.Raw(t, evicting.Addr), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if g := b.Guarantees(); g != want || g == guarantees() {
		t.Errorf("New: %+v\nby URL: %+v", g, want)
	}
	replica := servers.Redis(t, "--replicaof", "127.0.0.1", port(evicting.Addr))
	lacking := servers.Redis(t, "--rename-command", "ZPOPMIN", "")
	for name, addr := range map[string]string{"a replica": replica.Addr, "a command is missing": lacking.Addr,
		"nobody listens": "127.0.0.1:1"} {
		_, wanted := openURL(t.Context(), "redis://"+addr)
		c := redis.NewClient(&redis.Options{Addr: addr})
		b, err := New(t.Context(), c, nil)
		if err == nil {
			_ = b.Close()
		}
		_ = c.Close()
		if err == nil || wanted == nil || err.Error() != wanted.Error() {
			t.Errorf("%s: New: %v; by URL: %v", name, err, wanted)
		}
	}
}

// New returns within OpenTimeout although the client ignores deadlines and goes on with its request.
func TestNewOnServerThatHangs(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	c := redis.NewClient(&redis.Options{Addr: s.Addr, ReadTimeout: time.Minute})
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err != nil { // New uses this connection
		t.Fatal(err)
	}
	s.Freeze()
	defer s.Thaw()
	redistest.FailsInTime(t, func() (io.Closer, error) { return New(t.Context(), c, nil) })
}

func TestUnixAndTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := servers.Redis(t, "--unixsocket", dir+"/s")
	b := opened(t, "redis+unix://"+dir+"/s?db=1")
	l := acquire(t, b, req("k", time.Minute))
	if redistest.Raw(t, s.Addr).DBSize(context.Background()).Val() != 0 {
		t.Error("?db=1 is ignored")
	}
	release(t, l)

	secure := servers.RedisTLS(t)
	if _, err := openURL(context.Background(), "rediss://"+secure.Addr); err == nil {
		t.Error("a certificate of an unknown authority was accepted")
	}
	b = opened(t, "rediss://"+secure.Addr+"?skip_verify=true")
	release(t, acquire(t, b, req("k", time.Minute)))
	release(t, acquire(t, opened(t, "rediss://"+secure.Addr+"?cacert="+secure.CAFile()), req("k", time.Minute)))
	refuses(t, "redis://"+secure.Addr+"?cacert="+secure.CAFile(), "with TLS")
	c := redis.NewClient(&redis.Options{Addr: secure.Addr, TLSConfig: secure.Config()})
	defer c.Close()
	b, err := New(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	release(t, acquire(t, b, req("k", time.Minute)))
}

// A master without enough replicas also refuses scripts. Guarantees and the doctor mention versions that do not. With
// MinReplicas, nothing is granted on these either.
func TestMasterWithoutItsReplicas(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) *servers.Server{
		"usual": func(t *testing.T) *servers.Server { return servers.Redis(t) },
		"redis-6.0": func(t *testing.T) *servers.Server {
			storetest.Long(t, "another release of Redis")
			return redistest.Version(t, "redis-6.0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ignores := name == "redis-6.0"
			master := start(t)
			replica := servers.Redis(t, "--replicaof", "127.0.0.1", port(master.Addr))
			replicas := func(n string) {
				t.Helper()
				until(t, 4*soon, n+" replicas are connected", func() bool {
					text := redistest.Raw(t, master.Addr).Info(context.Background(), "replication").Val()
					return endpoint.ParseInfo(text)["connected_slaves"] == n
				})
			}
			replicas("1")
			if err := redistest.Raw(t, master.Addr).ConfigSet(t.Context(), "min-replicas-to-write", "1").Err(); err != nil {
				t.Fatal(err)
			}
			url := "redis://" + master.Addr
			b, demanding := opened(t, url), opened(t, url+"?lock_min_replicas=1&timeout=500ms")
			const what = "does not apply min-replicas-to-write"
			if got := b.Guarantees().EarlyLoss; strings.Contains(got, what) != ignores {
				t.Errorf("guarantees: %s", got)
			}
			if got := demanding.Guarantees().EarlyLoss; strings.Contains(got, what) {
				t.Errorf("guarantees with MinReplicas: %s", got)
			}
			for b, want := range map[*Backend]bool{b: ignores, demanding: false} {
				got := slices.ContainsFunc(storetest.Examined(t, b), func(f backend.Finding) bool {
					return f.Code == "min-replicas-ignored"
				})
				if got != want {
					t.Errorf("with %d replicas, the doctor finds min-replicas-ignored: %v", b.options.MinReplicas, got)
				}
			}
			replica.Kill()
			replicas("0")
			if l, err := b.Acquire(t.Context(), req("k", time.Minute)); ignores {
				if err != nil {
					t.Errorf("redis 6.0 now refuses scripts without replicas: %v", err)
				} else {
					release(t, l)
				}
			} else if !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("acquire without replicas: %v, want ErrUnavailable", err)
			}
			if _, err := demanding.Acquire(t.Context(), req("k2", time.Minute)); !errors.Is(err, backend.ErrUnavailable) {
				t.Errorf("acquire without replicas, with MinReplicas: %v, want ErrUnavailable", err)
			}
		})
	}
}

// Guarantees mention a master that would continue to grant keys during a partition.
func TestOpenTellsOfMasterThatGoesOn(t *testing.T) {
	t.Parallel()
	master := servers.Redis(t)
	_ = servers.Redis(t, "--replicaof", "127.0.0.1", port(master.Addr))
	c := redistest.Raw(t, master.Addr)
	until(t, 2*soon, "the replica is there", func() bool {
		return endpoint.ParseInfo(c.Info(context.Background(), "replication").Val())["connected_slaves"] == "1"
	})
	const what = "min-replicas-to-write is not set"
	if got := opened(t, "redis://"+master.Addr).Guarantees().EarlyLoss; !strings.Contains(got, what) {
		t.Errorf("a master that goes on: %s", got)
	}
	if err := c.ConfigSet(context.Background(), "min-replicas-to-write", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if got := opened(t, "redis://"+master.Addr).Guarantees().EarlyLoss; strings.Contains(got, what) {
		t.Errorf("a master that stops: %s", got)
	}
}
