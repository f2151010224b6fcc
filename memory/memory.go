// Package memory keeps locks in the memory of one process, with the semantics of a real store: a TTL that the store
// enforces by itself, ownership, a fair queue and fencing tokens. It is for tests, for programs of one process, and for
// trying things out; import it for its URL scheme, or open a [Store].
//
// It uses only package time and runs nothing while idle, so it works in a bubble of testing/synctest, where
// a lease of a day ends at once. Open the store inside the bubble, and do not share it with another bubble.
//
// # Guarantees
//
// Linearizable within the process: one mutex orders everything. A key is free as soon as its TTL ends, by the
// process's monotonic clock, whether its holder is dead, stuck or has closed its client. Waiters are served in order
// of arrival and notified at once. Tokens strictly increase as long as the process lives, across all stores,
// even for a named store that was closed and opened again.
//
// # Shared leases
//
// A key has one writer or any number of readers, each with its own expiry. Readers and writers wait in one queue.
// When a lease or a wait ends, the waiters at the front that conflict with no holder get the key in the same moment.
//
// # Failure modes
//
// When the process ends, all locks end, and tokens start again. On most systems the monotonic clock stops while
// the machine sleeps, and TTLs stop with it, for holders and the store alike.
//
// # URLs
//
//	memory:         a new store each time it is opened
//	memory://name   the same store for everybody in this process who opens that name
//
// The name is any text; '%', '/', ',', '@', '?', '#', blanks and control characters in it are escaped (%2F), and so is
// ':' unless digits alone follow. It is case-sensitive. A named store lives as long as a client is open or a lease is
// held. There are no parameters.
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

// guarantees are what every Store promises.
//
// MinTTL leaves a lease most of its TTL after backend.Margin. Requests after a TTL are never refused; MaxLate is for
// the timer that wakes a waiter, on a busy machine.
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
		URLs:       []driver.URLForm{{Scheme: "memory", Hosts: driver.OneHost}}, // the host is a name
		Examples:   []string{"memory:", "memory://name"},
		Guarantees: guarantees,
		RoundTrips: driver.RoundTrips{Acquire: "0", Renew: "0", Release: "0"},
		Open:       open,
	})
}

// New opens a store of its own, as the URL memory: does.
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
