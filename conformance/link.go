package conformance

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
)

// A LinkedFunc opens a client whose every connection to the store goes through a [Link] of its own. The suite closes
// both. Package conformance/link makes one for any store that is reached by host and port.
type LinkedFunc func(ctx context.Context) (backend.Backend, Link, error)

// A Direction is one of the two ways through a Link.
type Direction int

// The two ways through a Link.
const (
	ToStore Direction = iota
	FromStore
)

// String names the direction as seen from the client.
func (d Direction) String() string {
	if d == ToStore {
		return "to the store"
	}
	return "from the store"
}

// A Link is what lies between one client and the store, and makes faults. Its methods may be called by many goroutines
// at once, and return when the fault is in force.
type Link interface {
	// Cut breaks every connection there is. New ones are accepted.
	Cut()

	// CutAfter breaks every connection once n more bytes have passed in direction d, counted over all connections from
	// now on; the n-th byte still arrives. With n = 0 the first byte that comes breaks them. New connections are
	// accepted afterwards. The channel is closed when it has happened. Heal calls it off.
	CutAfter(d Direction, n int64) (happened <-chan struct{})

	// Refuse breaks every connection and accepts no new one until Heal.
	Refuse()

	// Hold keeps back what comes in direction d until Heal, which delivers it, in order. Connections stay open.
	Hold(d Direction)

	// Drop swallows what comes in direction d until Heal, as a network that loses packets; connections stay open, new
	// ones are accepted. Heal breaks the connections that lost something.
	Drop(d Direction)

	// Delay makes what comes in direction d arrive by that much later, until Heal.
	Delay(d Direction, by time.Duration)

	// Heal ends every fault.
	Heal()

	// Passed is how many bytes have passed in direction d since the link exists.
	Passed(d Direction) int64

	// Arrived is how many bytes have arrived at the link from the other end in direction d, forwarded or not.
	Arrived(d Direction) int64

	// Connections is how many connections the client has open through the link.
	Connections() int

	// Close breaks the remaining connections and frees the link.
	Close()
}

// An IgnoringLink is a Link that can leave dials unanswered, as a host that is down or a firewall does.
type IgnoringLink interface {
	Link

	// Ignore breaks every connection, and leaves each new dial without an answer until Heal.
	Ignore()
}

// A StrandingLink is a Link that can leave connections dead without an end, as a NAT or a firewall that forgets them
// does.
type StrandingLink interface {
	Link

	// Strand keeps back what is held, and whatever else comes, on the connections that exist, in both directions. They
	// stay open. New connections work: Strand ends Hold for them. Heal breaks the stranded connections.
	Strand()

	// DeliverStranded lets what comes on stranded connections pass to the store, late. The client gets no answer.
	DeliverStranded()
}

// An OpeningLink is a Link through which further clients can be opened, to see what Open does while the link is broken.
type OpeningLink interface {
	Link

	// Open opens another client whose connections go through this link. The caller closes it.
	Open(ctx context.Context) (backend.Backend, error)
}
