package redis

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/redistest"
)

// A server that cannot keep locks is refused at opening, with a reason, and without the password.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
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

// refuses fails the test unless opening fails, in time, and speaks of hint.
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
		t.Errorf("%s: %q, want it to speak of %q", backend.Redact(url), err, hint)
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

// Guarantees tell of a server that may evict locks, or that does not let us see.
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
	if _, err := New(ring, nil); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("ring: %v", err)
	}
	if _, err := New(nil, nil); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("nil client: %v", err)
	}
	s := ownDatabase(t)
	c := s.raw(t)
	for _, o := range []*Options{{Namespace: "a{b"}, {Namespace: strings.Repeat("n", 200)}, {MinReplicas: -1}, {Timeout: -1}} {
		if _, err := New(c, o); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("%+v: %v", *o, err)
		}
	}
	b, err := New(struct{ redis.UniversalClient }{c}, nil) // any other implementation, as one that is wrapped
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := b.List(t.Context(), ""); !errors.Is(err, backend.ErrUnsupported) { // which needs to know the servers
		t.Errorf("list: %v, %v", keys, err)
	}
	other, err := New(c, &Options{Namespace: "other"})
	if err != nil {
		t.Fatal(err)
	}
	l := acquire(t, b, req("k", time.Minute))
	release(t, acquire(t, other, req("k", time.Minute))) // namespaces are apart
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
	c := redis.NewClient(&redis.Options{Addr: secure.Addr, TLSConfig: secure.Config()})
	defer c.Close()
	b, err := New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	release(t, acquire(t, b, req("k", time.Minute)))
}

// Guarantees tell of a master that would go on granting behind a partition.
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
