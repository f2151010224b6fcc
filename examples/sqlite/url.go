package sqlite

import (
	"context"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

func init() {
	driver.Register(driver.Driver{
		Name:       "sqlite",
		URLs:       []driver.URLForm{{Scheme: "sqlite", Path: driver.RequiredPath}},
		Examples:   []string{"sqlite:///var/lib/app/locks.db"},
		Guarantees: guarantees,
		Open:       func(ctx context.Context, u driver.URL) (backend.Backend, error) { return Open(ctx, u.Path) },
	})
}
