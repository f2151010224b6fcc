// Package redis has well-known wrong ways to lock with Redis, and the small store from which they are built.
package redis

import "github.com/anylock/lock/conformance/specimens"

// Collection is the specimens of Redis.
var Collection = specimens.Collection{
	Store:     "Redis",
	Twin:      open(func(*store) {}),
	Specimens: specimens.Join(ownership, expiry, clocks, renewal, waiting, clients),
}
