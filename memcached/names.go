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

// A naming turns keys into the names of items, which have at most 250 printable bytes. Neither a namespace nor an
// encoded key contains ':' or '!', so names of different kinds, keys and namespaces differ. The name of a long key ends
// in the key's SHA-256; the item contains the whole key (record), so a collision would be noticed.
type naming struct{ namespace string }

// lock returns the name of key's lock.
func (n naming) lock(key string) string {
	e := backend.Encoding{Max: maxNameLen - len(n.namespace) - 1, Extra: "./@"}
	return n.namespace + ":" + e.Encode(key)
}

// counter returns the name of the counter of tokens.
func (n naming) counter() string { return n.namespace + "!token" }

// scratch returns the name of an item that only one operation uses.
func (n naming) scratch(unique string) string { return n.namespace + "!scratch-" + unique }

func validateNamespace(s string) error {
	if len(s) > maxNamespaceLen {
		return fmt.Errorf("%w: namespace of %d bytes is longer than %d", backend.ErrInvalid, len(s), maxNamespaceLen)
	}
	const punctuation = "-_./@"
	for _, r := range s {
		letter := r|0x20 >= 'a' && r|0x20 <= 'z'
		if !letter && (r < '0' || r > '9') && !strings.ContainsRune(punctuation, r) {
			return fmt.Errorf("%w: namespace %q has other characters than letters, digits and %s",
				backend.ErrInvalid, s, punctuation)
		}
	}
	return nil
}
