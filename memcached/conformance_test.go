package memcached

import (
	"context"
	"errors"
	"testing"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/conformance/link"
	"github.com/anylock/lock/conformance/process"
	"github.com/anylock/lock/internal/servers"
	"github.com/anylock/lock/internal/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	storetest.Main(t, func(t *testing.T) conformance.Harness {
		return conformance.Harness{
			Open:         func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, "memcached://"+p.Addr) },
			Evict:        func(_ context.Context, key string) error { return evict(s.Addr, key) },
			Freeze:       s.Freeze,
			Thaw:         s.Thaw,
			Restart:      func() { s.Kill(); s.Start() },
			RestartEmpty: s.RestartEmpty(),
			StepClock:    s.StepClock(),
			Cut:          func(backend.Backend) { p.Cut() },
			Linked:       link.URL("memcached://" + s.Addr),
			Process:      process.Self("memcached://" + s.Addr),
		}
	})
}

// evict removes a lock and the token counter, as a cache may do.
func evict(addr, key string) error {
	c := memcache.New(addr)
	c.Timeout = soon // the client's default, 500 ms, is too short on a busy machine
	defer c.Close()
	if err := c.Delete(counterName); err != nil && !errors.Is(err, memcache.ErrCacheMiss) {
		return err
	}
	return c.Delete(lockName(key))
}
