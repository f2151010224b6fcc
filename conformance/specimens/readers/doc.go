// Package readers has wrong ways to lock for readers and writers by Redis, and the small store that they are made from.
package readers

import "github.com/anylock/lock/conformance/specimens"

// Collection is the specimens of readers and writers. They appear in libraries for several servers; here all are
// stores on Redis, so that they share a twin.
var Collection = specimens.Collection{
	Store:     "Readers and writers",
	Twin:      open(func(*steps) {}),
	Specimens: specimens.Join(leases, queues),
}
