package memcached

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

var rules = []kit.Rule[reading]{
	{Severity: backend.Warning, Code: "evictions", Found: func(r reading) string {
		return kit.When(r.number("evictions") > 0, "%s items were evicted since the server started", r["evictions"])
	},
		Why: "evicted items may have been locks, and it may happen again: an evicted lock lets a second owner in",
		Set: "more memory (-m), or a server only for locks"},
	{Severity: backend.Warning, Code: "memory-nearly-full", Found: func(r reading) string {
		used, most := r.number("bytes"), r.number("limit_maxbytes")
		return kit.When(used > most/10*7, "%d of %d bytes are used", used, most)
	},
		Why: "slabs take much of the rest. A full server evicts items, including locks; with -M it refuses grants",
		Set: "more memory (-m), or a server only for locks"},
	{Severity: backend.Warning, Code: "old-version", Found: func(r reading) string {
		var major, minor int
		n, _ := fmt.Sscanf(r["version"], "%d.%d", &major, &minor)
		return kit.When(n == 2 && (major < 1 || major == 1 && minor < 6), "memcached %s", r["version"])
	},
		Why: "versions before 1.6 get no more fixes", Set: "a maintained version"},
}

// Examine implements [backend.Examiner].
func (b *Backend) Examine(ctx context.Context) ([]backend.Finding, error) {
	return kit.Call(ctx, b.leases, nil, b.examine)
}

func (b *Backend) examine(ctx context.Context) ([]backend.Finding, error) {
	var sent, received time.Time
	r, _, err := operation(ctx, b, 0, func(c *connection, _ bool) (reading, error) {
		if err := c.Ping(); err != nil {
			return nil, err
		}
		sent = b.now()
		defer func() { received = b.now() }()
		return c.stats()
	})
	switch {
	case errors.Is(err, errNoStats):
		return []backend.Finding{kit.Unseen("", "stats", err)}, nil
	case err != nil:
		return nil, err
	}
	const unit = (serverLag + 1) * time.Second
	return append(kit.CompareClocks("", r.time(), unit, sent, received), kit.Apply(rules, "", r)...), nil
}
