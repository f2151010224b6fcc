package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/redistest"
)

// Every slot has a tag. Redis hashes all names of a key to the slot of the key, whatever bytes the key contains.
// Different keys share no lock or queue.
func TestNamesShareASlot(t *testing.T) {
	t.Parallel()
	for s, tag := range tags() {
		if tag == "" || endpoint.Slot(tag) != s {
			t.Fatalf("slot %d has tag %q, which hashes to %d", s, tag, endpoint.Slot(tag))
		}
	}
	c := redistest.Raw(t, clusterNode(t).Addr)
	ctx := context.Background()
	keys := []string{"k", "{", "}", "{}", "{a}", "a{b}c", "}{", "{}{a}", "\x00", "a\x00{b}", "é",
		strings.Repeat("}", 1024)}
	for range 200 {
		b := make([]byte, 1+rand.IntN(64))
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		keys = append(keys, string(b))
	}
	seen := make(map[string]string)
	for _, key := range keys {
		n := naming{"ns"}.names(key)
		for _, name := range []string{n.lock, n.queue, n.fence} {
			if got := c.ClusterKeySlot(ctx, name).Val(); got != int64(endpoint.Slot(key)) {
				t.Errorf("%q of key %q hashes to slot %d, want %d", name, key, got, endpoint.Slot(key))
			}
		}
		for _, name := range []string{n.lock, n.queue} {
			if other, ok := seen[name]; ok && other != key {
				t.Errorf("keys %q and %q share the name %q", key, other, name)
			}
			seen[name] = key
		}
	}
}

// Similar keys spread over the slots of a cluster.
func TestKeysSpread(t *testing.T) {
	t.Parallel()
	used := make(map[int]int)
	const keys = 16384
	for i := range keys {
		used[endpoint.Slot(fmt.Sprint("{tenant}/job/", i))]++
	}
	most := 0
	for _, n := range used {
		most = max(most, n)
	}
	// If the slots were random, 63 % of them would be used, and none more than about 8 times.
	if len(used) < keys/2 || most > 16 {
		t.Errorf("%d keys hit %d slots, one of them %d times", keys, len(used), most)
	}
}
