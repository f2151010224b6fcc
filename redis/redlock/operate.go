package redlock

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/endpoint"
	"github.com/anylock/lock/redis/internal/exchange"
)

var (
	_ backend.Lister  = (*Backend)(nil)
	_ backend.Breaker = (*Backend)(nil)
)

// List implements [backend.Lister]. It scans every key of every node, a thousand at a time, and tells those that a quorum has, or may have
// with nodes that do not answer.
func (r *Backend) List(ctx context.Context, prefix string) ([]string, error) {
	if err := r.usage.Begin(ctx, nil); err != nil {
		return nil, err
	}
	defer r.usage.Calls.End()
	found := make(map[string]int)
	t := r.newRollCall()
	w := window{node: endpoint.OpenTimeout, needed: endpoint.OpenTimeout, outage: endpoint.OpenTimeout}
	r.ask(ctx, t, w, r.apart(func(i int) (verdict, func(), error) {
		keys, err := scanKeys(ctx, r.nodes[i].client, r.naming.lock(""), prefix)
		return told(err), func() {
			for key := range keys {
				found[key]++
			}
		}, err
	}))
	if err := backend.ContextError(ctx, nil); err != nil {
		return nil, err
	}
	if !t.won() {
		return nil, r.noQuorum(t.silent())
	}
	var keys []string
	for key, nodes := range found {
		if nodes+t.n-t.yes >= t.quorum {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// scanKeys are the keys that begin with prefix among the names of one server that begin with before.
func scanKeys(ctx context.Context, c *redis.Client, before, prefix string) (map[string]bool, error) {
	const page = 1000
	keys := make(map[string]bool)
	scan := c.Scan(ctx, 0, endpoint.GlobEscaper.Replace(before+prefix)+"*", page).Iterator()
	for scan.Next(ctx) {
		keys[scan.Val()[len(before):]] = true
	}
	return keys, scan.Err()
}

// Break implements [backend.Breaker]. It is done when a quorum is free of the lease.
func (r *Backend) Break(ctx context.Context, key, owner string) error {
	h, err := r.Inspect(ctx, key)
	if err != nil {
		return err
	}
	if h.Owner != owner {
		return backend.ErrLost
	}
	if err := r.usage.Begin(ctx, nil); err != nil {
		return err
	}
	defer r.usage.Calls.End()
	t := r.newTally()
	t.certain = func() bool { return t.won() }
	w := r.windowFor(r.options.MaxTTL)
	w.linger = true
	gone := 0
	r.ask(ctx, t, w, func(i int, enter entry) {
		q := exchange.Request{Script: breakScript, Keys: []string{r.naming.lock(key)}, Args: []any{owner, idLen}}
		r.nodes[i].post(q, func(v any, err error) {
			enter(told(err), func() {
				if v == int64(1) {
					gone++
				}
			}, err)
		})
	})
	switch {
	case t.won() && gone == 0:
		return backend.ErrLost
	case t.won():
		return nil
	}
	if err := backend.ContextError(ctx, nil); err != nil {
		return err
	}
	return r.noQuorum(t.silent())
}
