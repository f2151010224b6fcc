package memcached

import (
	"context"
	"errors"
	"testing"
	"time"

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
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		return conformance.Harness{
			Open:         func(ctx context.Context) (backend.Backend, error) { return openURL(ctx, "memcached://"+p.Addr) },
			Evict:        func(_ context.Context, key string) error { return evict(s.Addr, key) },
			Freeze:       s.Freeze,
			Thaw:         s.Thaw,
			Restart:      func() { s.Kill(); s.Start() },
			RestartEmpty: s.RestartEmpty(),
			Cut:          func(backend.Backend) { p.Cut() },
			Linked:       link.URL("memcached://" + s.Addr),
			Process:      process.Self("memcached://" + s.Addr),
		}
	})
}

// A caller's client knows no deadlines, and uses any of its connections for any request. It keeps fewer than it has requests
// at once, so that some requests have a connection made for them.
func TestConformanceCallersClient(t *testing.T) {
	t.Parallel()
	storetest.Long(t, "the suite once more, on a caller's client")
	s := servers.Memcached(t)
	p := newProxy(t, s.Addr)
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		open := func(_ context.Context, addrs []string) (backend.Backend, error) {
			c := memcache.New(addrs...)
			c.MaxIdleConns = 32
			c.Timeout = 2 * time.Second // the default of 0.5 s is short for a busy machine
			t.Cleanup(func() { _ = c.Close() })
			return New(c, nil)
		}
		return conformance.Harness{
			Open:         func(ctx context.Context) (backend.Backend, error) { return open(ctx, []string{p.Addr}) },
			Evict:        func(_ context.Context, key string) error { return evict(s.Addr, key) },
			Freeze:       s.Freeze,
			Thaw:         s.Thaw,
			Restart:      func() { s.Kill(); s.Start() },
			RestartEmpty: s.RestartEmpty(),
			Cut:          func(backend.Backend) { p.Cut() },
			Linked:       link.Linked([]string{s.Addr}, open),
		}
	})
}

// evict drops a lock, and the counter that tokens come from, as a cache may.
func evict(addr, key string) error {
	c := memcache.New(addr)
	defer c.Close()
	n := naming{defaultNamespace}
	if err := c.Delete(n.counter()); err != nil && !errors.Is(err, memcache.ErrCacheMiss) {
		return err
	}
	return c.Delete(n.lock(key))
}
