package memcached

import (
	"fmt"
	"strings"

	"github.com/anylock/lock/backend"
)

const (
	defaultNamespace = "anylock"
	maxNamespaceLen  = 64
	maxNameLen       = 250 // memcached's limit for the name of an item
)

// A naming turns keys into the names of items, which are of at most 250 printable bytes. Neither a namespace nor an encoded
// key has a ':' or '!', so that names of different kinds, keys and namespaces differ. A long key ends in its SHA-256; the
// item holds the whole key (record), so that even a twin would be noticed.
type naming struct{ namespace string }

// lock is the name of key's lock.
func (n naming) lock(key string) string {
	e := backend.Encoding{Max: maxNameLen - len(n.namespace) - 1, Extra: "./@"}
	return n.namespace + ":" + e.Encode(key)
}

// counter is the name of the counter that tokens come from.
func (n naming) counter() string { return n.namespace + "!token" }

// scratch is the name of an item that is of use to one request only.
func (n naming) scratch(unique string) string { return n.namespace + "!scratch-" + unique }

func validateNamespace(s string) error {
	if len(s) > maxNamespaceLen {
		return fmt.Errorf("%w: namespace of %d bytes is longer than %d", backend.ErrInvalid, len(s), maxNamespaceLen)
	}
	const other = "-_./@"
	for _, r := range s {
		letter := r|0x20 >= 'a' && r|0x20 <= 'z'
		if !letter && (r < '0' || r > '9') && !strings.ContainsRune(other, r) {
			return fmt.Errorf("%w: namespace %q has other characters than letters, digits and %s", backend.ErrInvalid, s, other)
		}
	}
	return nil
}
