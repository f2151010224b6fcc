package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/redistest"
)

func TestDoctorWellConfigured(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, append(redistest.Durable, "--maxmemory", "100mb", "--maxmemory-policy", "noeviction")...)
	storetest.Healthy(t, opened(t, "redis://"+s.Addr))
}

func TestDoctorEviction(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru")
	b := opened(t, "redis://"+s.Addr)
	c := redistest.Raw(t, s.Addr)
	for i := range 600 {
		if err := c.Set(t.Context(), fmt.Sprint("filler-", i), strings.Repeat("x", 10_000), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Finds(t, b, "eviction-policy", "evicted-keys", "memory-nearly-full", "no-persistence")
}

func TestDoctorSnapshotsOnly(t *testing.T) {
	t.Parallel()
	storetest.Finds(t, opened(t, "redis://"+servers.Redis(t, "--save", "3600 1").Addr), "lossy-persistence")
}

func TestDoctorReplicas(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	b, demanding := opened(t, "redis://"+s.Addr), opened(t, "redis://"+s.Addr+"?lock_min_replicas=2")
	host, port, _ := strings.Cut(s.Addr, ":")
	servers.Redis(t, "--replicaof", host+" "+port)
	c := redistest.Raw(t, s.Addr)
	until(t, 2*soon, "the replica is connected", func() bool {
		text, err := c.Info(context.Background(), "replication").Result()
		return err == nil && endpoint.ParseInfo(text)["connected_slaves"] == "1"
	})
	storetest.Finds(t, b, "min-replicas-unset")
	storetest.Finds(t, demanding, "too-few-replicas")
}

func TestDoctorOldVersion(t *testing.T) {
	storetest.Long(t, "another release of Redis")
	t.Parallel()
	storetest.Finds(t, opened(t, "redis://"+servers.RedisVersion(t, "redis-6.0").Addr), "old-version")
}

// A managed server may forbid INFO and CONFIG. Then Examine reports that it could not read them, and finds nothing
// critical.
func TestDoctorRights(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	url := redistest.User(t, redistest.Raw(t, s.Addr), "few", []string{"~*", "+@all", "-config", "-info", "resetchannels"})
	b := opened(t, url+"?lock_min_replicas=1")
	if f := storetest.Finds(t, b, "unseen", "no-channels"); f.Severity != backend.Info {
		t.Errorf("%+v", f)
	}
	for _, f := range storetest.Examined(t, b) {
		if f.Severity == backend.Critical {
			t.Errorf("nobody has counted replicas: %+v", f)
		}
	}
}

func TestDoctorClock(t *testing.T) {
	t.Parallel()
	p := redistest.Shifted(t, ownDatabase(t).Addr)
	f := storetest.Finds(t, opened(t, "redis://"+p.Addr), "clock-skew")
	if !strings.Contains(f.Found, "ahead") {
		t.Errorf("%+v", f)
	}
}

func TestDoctorSlowRoundTrip(t *testing.T) {
	t.Parallel()
	p := storetest.NewProxy(t, ownDatabase(t).Addr)
	b := opened(t, "redis://"+p.Addr)
	p.Set(func(p *storetest.Proxy) { p.Delay = 60 * time.Millisecond })
	list, err := kit.Examine(t.Context(), b, "doctor", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	isSlow := func(f backend.Finding) bool { return f.Code == "slow-round-trip" }
	if !slices.ContainsFunc(list, isSlow) {
		t.Errorf("%+v", list)
	}
	list, err = kit.Examine(t.Context(), b, "doctor", time.Hour)
	if err != nil || slices.ContainsFunc(list, isSlow) {
		t.Errorf("of an hour: %+v, %v", list, err)
	}
}

func TestDoctorOfClosed(t *testing.T) {
	t.Parallel()
	b, err := openURL(t.Context(), ownDatabase(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	if _, err := b.Examine(t.Context()); !errors.Is(err, backend.ErrClosed) {
		t.Error(err)
	}
}

func TestDoctorLooksAtEveryMaster(t *testing.T) {
	t.Parallel()
	nodes := cluster(t)
	b := opened(t, "redis+cluster://"+nodes[0].Addr)
	where := make(map[string]bool)
	for _, f := range storetest.Examined(t, b) {
		if f.Code == "no-persistence" {
			where[f.Where] = true
		}
	}
	if len(where) != len(nodes) {
		t.Errorf("%v", where)
	}
}
