package sqlite

import (
	"context"

	"github.com/anylock/lock/backend"
)

func init() {
	backend.Register(backend.Driver{
		Name:       "sqlite",
		URLs:       []backend.URLForm{{Scheme: "sqlite", Path: backend.RequiredPath}},
		Examples:   []string{"sqlite:///var/lib/app/locks.db"},
		Guarantees: guarantees,
		Open: func(ctx context.Context, u backend.URL) (backend.Backend, error) {
			s, err := Open(ctx, u.Path)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
	})
}
