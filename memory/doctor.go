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
func (b *Backend) Examine(ctx context.Context) (list []backend.Finding, err error) {
	err = b.leases.Call(ctx, nil, func(context.Context) error {
		list = backend.Apply(rules, "", b)
		return nil
	})
	return list, err
}
