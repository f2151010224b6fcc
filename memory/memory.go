// Package memory keeps locks in the memory of one process, with the semantics of a real store: a TTL that the store
// itself enforces, ownership, a fair queue and fencing tokens. Use it in tests, in single-process programs, and to try
// the library out. Import it for its URL scheme, or create a [Store].
//
// It uses only the clock of package time and runs no goroutine while idle, so it works in a bubble of testing/synctest,
// where a lease of a day expires at once. Create the store inside the bubble, and do not share the store with another
// bubble.
//
// # Guarantees
//
// Linearizable within the process: one mutex orders all requests. A key is free as soon as its TTL runs out on the
// process's monotonic clock, whether its holder is dead, stuck or has closed its client. Waiters are served in order of
// arrival and notified at once. Tokens strictly increase as long as the process lives, across all stores, even for a
// named store that was closed and opened again.
//
// # Shared leases
//
// A key has one writer or any number of readers, each with its own expiry. Readers and writers wait in one queue. When
// a lease or a wait ends, the waiters at the front that conflict with no holder are granted the key immediately.
//
// # Failure modes
//
// When the process ends, all locks end, and tokens restart from 1. On most systems the monotonic clock stops while the
// machine sleeps, and TTLs stop with it, for holders and the store alike.
//
// # URLs
//
//	memory:         a new store each time it is opened
//	memory://name   one store for all clients in this process that open the same name
//
// The name is any text. '%', '/', ',', '@', '?', '#', blanks and control characters in it must be escaped (%2F), and so
// must ':' unless only digits follow. The name is case-sensitive. A named store exists while a client is open or a
// lease is held. There are no parameters.
package memory

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
)

// guarantees apply to every Store.
//
// With MinTTL, a lease keeps most of its TTL after backend.Margin is subtracted. An expired lease never blocks a new
// request. MaxLate covers only the timer that wakes waiters, which may be late on a busy machine.
var guarantees = backend.Guarantees{
	MinTTL:      10 * time.Millisecond,
	Granularity: time.Nanosecond,
	MaxLate:     20 * time.Millisecond,
	EnforcedBy:  "monotonic clock of the process",
	Fencing:     backend.FencingProcess,
	FIFO:        true,
	Wake:        backend.WakePush,
	Consistency: backend.Linearizable,
	Reach:       backend.ReachProcess,
	Shared:      true,
}

func init() {
	driver.Register(driver.Driver{
		Name:       "memory",
		URLs:       []driver.URLForm{{Scheme: "memory", Hosts: driver.OneHost}}, // the host is the store's name
		Examples:   []string{"memory:", "memory://name"},
		Guarantees: guarantees,
		RoundTrips: driver.RoundTrips{Acquire: "0", Renew: "0", Release: "0"},
		Open:       open,
	})
}

// New returns a client of a new, private store, as the URL memory: does.
func New() *Backend {
	s := NewStore()
	return newBackend(s, s.discard)
}

func open(ctx context.Context, u driver.URL) (backend.Backend, error) {
	if err := kit.ContextError(ctx, nil); err != nil {
		return nil, err
	}
	if len(u.Hosts) == 0 {
		return New(), nil
	}
	name, err := url.PathUnescape(u.Hosts[0])
	if err != nil {
		return nil, fmt.Errorf("%w: memory url: bad %%XX escape in the name", backend.ErrInvalid)
	}
	return openNamed(name), nil
}
