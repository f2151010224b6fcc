package memcached

import "github.com/anylock/lock/backend"

const (
	namespace  = "anylock" // begins the name of every item
	maxNameLen = 250       // memcached's limit for the name of an item
)

// A naming turns keys into the names of items, which are of at most 250 printable bytes. Neither the namespace nor an
// encoded key has a ':' or '!', so that names of different kinds and keys differ. A long key ends in its SHA-256; the
// item holds the whole key (record), so that even a twin would be noticed.
type naming struct{}

// lock is the name of key's lock.
func (naming) lock(key string) string {
	e := backend.Encoding{Max: maxNameLen - len(namespace) - 1, Extra: "./@"}
	return namespace + ":" + e.Encode(key)
}

// counter is the name of the counter that tokens come from.
func (naming) counter() string { return namespace + "!token" }

// scratch is the name of an item that is of use to one request only.
func (naming) scratch(unique string) string { return namespace + "!scratch-" + unique }
