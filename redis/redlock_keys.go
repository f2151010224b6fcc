package redis

import "strconv"

// A redlockNaming turns keys into the names of Redis keys at each node. Nodes are servers of their own, so that names need
// not share a cluster slot; slots only bound the number of fences.
type redlockNaming struct{ prefix string }

func newRedlockNaming(namespace string) redlockNaming {
	return redlockNaming{namespace + ":redlock:"}
}

func (n redlockNaming) lock(key string) string { return n.prefix + "lock:" + key }

// fence is the counter of tokens of all keys with one slot. It never expires: there are 16384 at most.
func (n redlockNaming) fence(key string) string {
	const base = 36
	return n.prefix + "fence:" + strconv.FormatInt(int64(slot(key)), base)
}

func (n redlockNaming) birth() string { return n.prefix + "birth" }
