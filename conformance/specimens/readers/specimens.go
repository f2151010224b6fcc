// Package readers has well-known wrong ways to let readers share a lock with Redis, and the small store from which they
// are built.
package readers

import "github.com/anylock/lock/conformance/specimens"

// Collection is the specimens of locks for readers and writers.
var Collection = specimens.Collection{
	Store:     "Readers and writers",
	Twin:      open(func(*steps) {}),
	Specimens: specimens.Join(sets, renewal, ownership, queues),
}
