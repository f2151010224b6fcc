package conformance

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
)

// A LinkedFunc opens a client whose connections to the store all go through a [Link] of its own. The suite closes both.
// Package conformance/link makes one for any store that is reached by host and port.
type LinkedFunc func(ctx context.Context) (backend.Backend, Link, error)

// A Direction is one of the two directions of a Link.
type Direction int

// The two directions of a Link.
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

// A Link connects one client to the store, and injects faults. Its methods are safe for concurrent use. Each returns
// when its fault is in force.
type Link interface {
	// Cut breaks every existing connection. The link accepts new ones.
	Cut()

	// CutAfter breaks every connection after n more bytes have passed in direction d, counted over all connections from
	// now on. The n-th byte still arrives. If n is 0, the first byte that arrives breaks the connections. Afterwards the
	// link accepts new connections. The channel is closed when the connections have broken. Heal cancels a pending cut.
	CutAfter(d Direction, n int64) (happened <-chan struct{})

	// Refuse breaks every connection and accepts no new one until Heal.
	Refuse()

	// Hold holds back the data in direction d until Heal, which delivers the data in order. Connections stay open.
	Hold(d Direction)

	// Drop discards the data in direction d until Heal, like a network that loses packets. Connections stay open, and the
	// link accepts new ones. Heal breaks the connections that lost data.
	Drop(d Direction)

	// Delay delays the data in direction d by the given time, until Heal. A message may arrive in parts.
	Delay(d Direction, by time.Duration)

	// Heal ends every fault.
	Heal()

	// Passed returns how many bytes the link has forwarded in direction d since it was made.
	Passed(d Direction) int64

	// Arrived returns how many bytes the link has received in direction d, forwarded or not.
	Arrived(d Direction) int64

	// Connections returns how many connections the client has open through the link.
	Connections() int

	// Close breaks the remaining connections and frees the link.
	Close()
}

// An IgnoringLink is a Link that can leave dials unanswered, like a firewall or a host that is down.
type IgnoringLink interface {
	Link

	// Ignore breaks every connection. New dials get no reply until Heal.
	Ignore()
}

// A StrandingLink is a Link that can make connections dead without closing them, like a NAT or a firewall that has
// forgotten them.
type StrandingLink interface {
	Link

	// Strand holds back all data on the existing connections, in both directions, including data that is already held.
	// These connections stay open. New connections work, because Strand also ends Hold. Heal breaks the stranded
	// connections.
	Strand()

	// DeliverStranded forwards the data of stranded connections to the store, late. The client gets no reply.
	DeliverStranded()
}

// An OrphaningLink is a StrandingLink that can break dead connections for the client alone, like a proxy that fails
// towards the client when it has accepted a request.
type OrphaningLink interface {
	StrandingLink

	// Orphan is Strand, and the client notices at once that its existing connections have ended. DeliverStranded still
	// forwards to the store what the client has sent.
	Orphan()
}

// An OpeningLink is a Link through which the suite can open further clients, to test Open while the link is broken.
type OpeningLink interface {
	Link

	// Open opens another client whose connections go through this link. The caller closes it.
	Open(ctx context.Context) (backend.Backend, error)
}
