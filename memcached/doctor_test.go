package memcached

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestDoctorWellConfigured(t *testing.T) {
	t.Parallel()
	b := opened(t, "memcached://"+servers.Memcached(t).Addr)
	if list := storetest.Examined(t, b); len(list) > 0 {
		t.Errorf("%+v", list)
	}
}

func TestDoctorEvictions(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t, "-m", "16")
	b := opened(t, "memcached://"+s.Addr)
	c := raw(t, s.Addr)
	for i := range 3000 {
		if err := c.Set(&memcache.Item{Key: fmt.Sprint("filler-", i),
			Value: []byte(strings.Repeat("x", 10_000))}); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Finds(t, b, "evictions", "memory-nearly-full")
}

func TestDoctorClock(t *testing.T) {
	t.Parallel()
	b := opened(t, "memcached://"+servers.Memcached(t).Addr)
	b.now = func() time.Time { return time.Now().Add(time.Minute) }
	if f := storetest.Finds(t, b, "clock-skew"); !strings.Contains(f.Found, "behind") {
		t.Errorf("%+v", f)
	}
}

// If the connection breaks before the reply, Examine fails, and reports nothing about the clock.
func TestDoctorUnanswered(t *testing.T) {
	t.Parallel()
	p := newProxy(t, servers.Memcached(t).Addr)
	b := opened(t, "memcached://"+p.Addr)
	p.set(func(verb string) action {
		if verb == "stats" {
			return refuse
		}
		return pass
	})
	if list, err := b.Examine(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("%+v, %v", list, err)
	}
}

// No old server is available, so this tests only the rule.
func TestDoctorOldVersion(t *testing.T) {
	for version, old := range map[string]bool{"1.4.33": true, "1.5.22": true, "1.6.18": false, "2.0.1": false, "": false} {
		found := false
		for _, f := range kit.Apply(rules, "", reading{"version": version}) {
			found = found || f.Code == "old-version"
		}
		if found != old {
			t.Errorf("%q: %v", version, found)
		}
	}
}
