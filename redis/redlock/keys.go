package redlock

import (
	"strconv"

	"github.com/anylock/lock/redis/internal/endpoint"
)

// A naming turns keys into the names of Redis keys at each node. Nodes are servers of their own, so that names need
// not share a cluster slot; slots only bound the number of fences.
type naming struct{ prefix string }

func newNaming(namespace string) naming {
	return naming{namespace + ":redlock:"}
}

func (n naming) lock(key string) string { return n.prefix + "lock:" + key }

// fence is the counter of tokens of all keys with one slot. It never expires: there are 16384 at most.
func (n naming) fence(key string) string {
	const base = 36
	return n.prefix + "fence:" + strconv.FormatInt(int64(endpoint.Slot(key)), base)
}

func (n naming) birth() string { return n.prefix + "birth" }
