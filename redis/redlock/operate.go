package redlock

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
	"github.com/anylock/lock/redis/internal/endpoint"
)

// List implements [backend.Lister]. It scans every key of every node, a thousand at a time, and returns the keys that a
// quorum has, or may have if some nodes do not reply. It times out after 5 s, whatever ctx allows.
func (r *Backend) List(ctx context.Context, prefix string) ([]string, error) {
	return kit.Call(ctx, r.leases, nil, func(ctx context.Context) ([]string, error) { return r.list(ctx, prefix) })
}

func (r *Backend) list(ctx context.Context, prefix string) ([]string, error) {
	found := make(map[string]int)
	t := r.newTally()
	w := window{node: endpoint.OpenTimeout, needed: endpoint.OpenTimeout, outage: endpoint.OpenTimeout}
	r.runRound(ctx, t, w, r.onGoroutines(func(i int) (func(), error) {
		keys, err := scanKeys(ctx, r.nodes[i].client, r.naming.lock(""), prefix)
		return func() {
			for key := range keys {
				found[key]++
			}
		}, err
	}))
	if err := r.quorumError(t); err != nil {
		return nil, err
	}
	var keys []string
	for key, nodes := range found {
		if nodes+t.missing() >= t.quorum {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// scanKeys returns the keys of one server that begin with prefix. Their names begin with before.
func scanKeys(ctx context.Context, c *redis.Client, before, prefix string) (map[string]bool, error) {
	const page = 1000
	keys := make(map[string]bool)
	scan := c.Scan(ctx, 0, endpoint.GlobEscaper.Replace(before+prefix)+"*", page).Iterator()
	for scan.Next(ctx) {
		if key, ok := strings.CutPrefix(scan.Val(), before); ok && strings.HasPrefix(key, prefix) {
			keys[key] = true
		}
	}
	return keys, scan.Err()
}

// Break implements [backend.Breaker]. It returns when a quorum is free of the lease, and waits up to 250 ms for the
// other nodes: a late renewal by the holder, who does not know of the Break, may put the lease back on one node.
func (r *Backend) Break(ctx context.Context, key, owner string) error {
	return r.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		return r.breakLease(ctx, key, owner)
	})
}

func (r *Backend) breakLease(ctx context.Context, key, owner string) error {
	h, _, err := r.holder(ctx, key, false)
	switch {
	case err != nil:
		return err
	case ownerOf(h.Owner) != owner:
		return backend.ErrLost
	}
	// cleanupLimit limits the cleanup of a node that hangs, because an Acquire in progress may be granted the key under
	// the same id.
	const cleanupLimit = time.Second
	c := r.claimOf(key, h.Owner, cleanupLimit)
	for i := range c.at {
		c.at[i].mayHaveKey = true
	}
	_, err = r.release(ctx, c, true)
	return err
}
