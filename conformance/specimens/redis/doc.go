// Package redis keeps the famous wrong ways to lock by Redis, and the small store that they are made from.
package redis

import "github.com/anylock/lock/conformance/specimens"

// Collection is the specimens of Redis.
var Collection = specimens.Collection{
	Store:     "Redis",
	Twin:      open(func(*store) {}),
	Specimens: specimens.Join(ownership, expiry, clocks, renewal, waiting, clients),
}
