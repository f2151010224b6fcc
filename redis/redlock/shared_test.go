package redlock

import (
	"errors"
	"testing"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/redistest"
)

// A request for a shared lease is rejected before any request to a node.
func TestSharedIsUnsupported(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 3)
	f.bootstrap()
	b := f.open()
	release(t, acquire(t, b, req("warm", time.Minute)))
	waitIdle(t, b)
	var before []map[string]int
	for _, n := range f.nodes {
		before = append(before, redistest.Commands(t, redistest.Raw(t, n.Addr)))
	}
	for _, wait := range []bool{false, true} {
		r := req("k", time.Minute)
		r.Wait, r.Shared = wait, true
		if _, err := b.Acquire(t.Context(), r); !errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("wait %v: %v, want ErrUnsupported", wait, err)
		}
	}
	for i, n := range f.nodes {
		diff, _ := redistest.Since(before[i], redistest.Commands(t, redistest.Raw(t, n.Addr)))
		if diff["evalsha"]+diff["eval"] > 0 {
			t.Errorf("node %d has served %v", i, diff)
		}
	}
}
