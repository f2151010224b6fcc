package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
	"github.com/anylock/lock/redis/internal/redistest"
)

var allScripts = map[string]exchange.Script{
	"acquire": acquireScript, "renew": renewScript, "release": releaseScript, "inspect": inspectScript,
	"acquire shared": acquireSharedScript, "release shared": releaseSharedScript,
}

func TestDigests(t *testing.T) {
	t.Parallel()
	redistest.Digests(t, allScripts)
	redistest.Digests(t, map[string]exchange.Script{"probe": endpoint.ProbeScript})
}

// A foreign value holds the key, and does not change.
func TestForeignValue(t *testing.T) {
	t.Parallel()
	s := ownDatabase(t)
	c := s.raw(t)
	b := opened(t, s.URL)
	ctx := context.Background()
	for _, value := range []string{"", "owner", "a:b:c", ":owner", "x1:owner", "-1:owner", "\x00:\n:"} {
		r := req("k", time.Minute)
		c.Set(ctx, b.naming.lock("k"), value, 0)
		_, err := b.Acquire(ctx, r)
		h, ok := held1(err)
		if !ok || !errors.Is(err, backend.ErrHeld) || h.Holder.Owner != value || h.Holder.Token != 0 || h.Holder.TTL != 0 {
			t.Errorf("acquire of a key with %q: %v, %+v, want held by that", value, err, h)
		}
		if removed, _, err := b.release(ctx, b.naming.names("k"), lockValue(0, value), false); removed || err != nil {
			t.Errorf("release of a key with %q: %v, %v", value, removed, err)
		}
		if got, err := c.Get(ctx, b.naming.lock("k")).Result(); got != value || err != nil {
			t.Errorf("%q became %q, %v", value, got, err)
		}
	}
}
