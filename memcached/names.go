package memcached

import (
	"github.com/anylock/lock/backend/kit"
)

const (
	namespace  = "anylock" // the prefix of every item's name
	maxNameLen = 250       // memcached's limit for the name of an item
)

// lockName returns the name of key's lock. The names of items have at most 250 printable bytes. Neither the namespace
// nor an encoded key contains ':' or '!', so names of different kinds and keys differ. The name of a long key ends in
// the key's SHA-256; the item contains the whole key (record), so a collision would be noticed.
func lockName(key string) string {
	e := kit.Encoding{Max: maxNameLen - len(namespace) - 1, Extra: "./@"}
	return namespace + ":" + e.Encode(key)
}

// counterName is the name of the counter of tokens.
const counterName = namespace + "!token"

// scratchName returns the name of an item that only one operation uses.
func scratchName(unique string) string { return namespace + "!scratch-" + unique }
