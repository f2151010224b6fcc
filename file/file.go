package file

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
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
}

func init() {
	backend.Register(backend.Driver{
		Name:       "file",
		URLs:       []backend.URLForm{{Scheme: "file", Path: backend.RequiredPath}},
		Examples:   []string{"file:///var/lib/myapp/locks"},
		Guarantees: guarantees,
		Findings:   backend.Findings(rules),
		RoundTrips: backend.RoundTrips{Acquire: "0", Renew: "0", Release: "0"},
		Open: func(ctx context.Context, u backend.URL) (backend.Backend, error) {
			dir, err := directoryOf(u)
			if err != nil {
				return nil, err
			}
			b, err := Open(ctx, dir)
			if err != nil {
				return nil, err // not b: a nil *Backend is not a nil interface
			}
			return b, nil
		},
	})
}
