package file

import (
	"context"
	"path/filepath"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
)

var errUnsupported = backend.ErrUnsupported

// guarantees are what every Backend promises.
var guarantees = backend.Guarantees{
	MinTTL:      10 * time.Millisecond,
	Granularity: time.Nanosecond,
	MaxLate:     500 * time.Millisecond,
	EnforcedBy:  "monotonic clock of the host",
	Fencing:     backend.FencingLoss,
	FIFO:        true,
	Wake:        backend.WakePush,
	Consistency: backend.Linearizable,
	Reach:       backend.ReachHost,
	Shared:      true,
}

func init() {
	driver.Register(driver.Driver{
		Name:       "file",
		URLs:       []driver.URLForm{{Scheme: "file", Path: driver.RequiredPath}},
		Examples:   []string{"file:///var/lib/myapp/locks"},
		Guarantees: guarantees,
		Findings:   kit.Findings(rules),
		RoundTrips: driver.RoundTrips{Acquire: "0", Renew: "0", Release: "0"},
		Open: func(ctx context.Context, u driver.URL) (backend.Backend, error) {
			return Open(ctx, filepath.FromSlash(u.Path))
		},
	})
}
