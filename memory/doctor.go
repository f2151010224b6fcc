package memory

import (
	"context"

	"github.com/anylock/lock/backend"
)

var rules = []backend.Rule[*Backend]{
	{
		Severity: backend.Info, Code: "one-process", Found: func(*Backend) string { return "locks are in this process' memory" },
		Why: "no other process is kept out, nor this one's next start", Set: "another store, where processes share what is locked",
	},
}

// Examine implements backend.Examiner.
func (b *Backend) Examine(ctx context.Context) ([]backend.Finding, error) {
	if b.leases.Closed() {
		return nil, backend.ErrClosed
	}
	return backend.Apply(rules, "", b), backend.ContextError(ctx, nil)
}
