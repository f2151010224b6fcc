package memory

import (
	"context"

	"github.com/anylock/lock/backend"
)

var rules = []backend.Rule[*Backend]{
	{
		Severity: backend.Info, Code: "one-process", Found: func(*Backend) string { return "locks are in this process's memory" },
		Why: "other processes are not excluded, nor is this program after a restart", Set: "another store, if several processes use the locked resource",
	},
}

// Examine implements backend.Examiner.
func (b *Backend) Examine(ctx context.Context) ([]backend.Finding, error) {
	if b.leases.Closed() {
		return nil, backend.ErrClosed
	}
	return backend.Apply(rules, "", b), backend.ContextError(ctx, nil)
}
