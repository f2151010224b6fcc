package redlock

import (
	"strconv"

	"github.com/anylock/lock/redis/internal/endpoint"
)

// A naming turns keys into the names of Redis keys at each node. Nodes are independent servers, so names need not share
// a cluster slot. Slots only bound the number of fences.
type naming struct{ prefix string }

func newNaming(namespace string) naming {
	return naming{namespace + ":redlock:"}
}

func (n naming) lock(key string) string { return n.prefix + "lock:" + key }

// fence returns the name of the token counter of all keys with one slot. Counters never expire; there are at most
// 16384.
func (n naming) fence(key string) string {
	const base = 36
	return n.prefix + "fence:" + strconv.FormatInt(int64(endpoint.Slot(key)), base)
}

func (n naming) birth() string { return n.prefix + "birth" }
