package memcached

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/servers"
)

// The longest TTL is sent as a relative time, and the server keeps the lock for that long. A longer TTL, which
// memcached would read as a date, is rejected.
func TestLongestTTL(t *testing.T) {
	t.Parallel()
	s := servers.Memcached(t)
	b := opened(t, "memcached://"+s.Addr+patient)
	holds := func(what string) {
		t.Helper()
		least := int(maxTTL / time.Second)
		if left := left(t, s.Addr, lockName("k")); left < least || left > least+serverLag {
			t.Errorf("%s for %v: %ds left", what, maxTTL, left)
		}
	}
	l := acquire(t, b, req("k", maxTTL))
	holds("acquire")
	if err := l.Renew(context.Background(), maxTTL+1); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("renew for more: %v, want ErrInvalid", err)
	}
	holds("a renewal that is refused")
	for _, ttl := range []time.Duration{time.Minute, maxTTL} {
		if err := l.Renew(context.Background(), ttl); err != nil {
			t.Fatal(err)
		}
	}
	holds("renewal")
	release(t, l)
	if _, err := b.Acquire(context.Background(), req("k", maxTTL+1)); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("acquire for more: %v, want ErrInvalid", err)
	}
}

// serverTime returns the server's time.
func serverTime(t *testing.T, b *Backend) time.Time {
	t.Helper()
	r, _, err := operation(t.Context(), b, 0, func(c *connection, _ bool) (reading, error) {
		if err := c.Ping(); err != nil {
			return nil, err
		}
		return c.stats()
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.time()
}

// The server reports its time in whole seconds: at most serverLag behind, and at most a second ahead.
func TestServerTime(t *testing.T) {
	t.Parallel()
	b := opened(t, "memcached://"+servers.Memcached(t).Addr)
	before := time.Now().Unix()
	now := serverTime(t, b).Unix()
	if after := time.Now().Unix(); now < before-serverLag || now > after+1 {
		t.Errorf("the server's time is %d, ours was %d to %d", now, before, after)
	}
}
