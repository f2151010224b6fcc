package etcd

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"sync"

	"github.com/anylock/lock/backend/kit"
)

// naming makes etcd's keys. All contenders for a key live below one prefix, each under a name of its client's:
//
//	<namespace>/~<key, escaped>/<client>-<number>
//
// The ~ keeps a key apart from a longer namespace, whose parts must not begin with it; escaping keeps the key a apart from
// the key a/b. The value is the owner.
type naming struct{ namespace string }

const nameMark = "~"

var encoding = kit.Encoding{Extra: "."}

// prefix is what all contenders for key have in common, and nobody else.
func (n naming) prefix(key string) string {
	return n.namespace + "/" + nameMark + encoding.Encode(key) + "/"
}

// names are what a client's contenders are called, each of them one at a time.
//
// They are used again, because etcd's index keeps every key that ever was until the next compaction, and walks over all
// those of a prefix to find the live ones: with a new name for each owner an acquire would cost more and more. But a name
// is not used again when a request went unanswered that may yet touch its key.
type names struct {
	client string

	mu   sync.Mutex
	free []string // the last used last
	last int
}

func newNames() *names {
	var b [8]byte
	rand.Read(b[:]) // never fails since Go 1.24
	return &names{client: hex.EncodeToString(b[:])}
}

func (n *names) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if k := len(n.free); k > 0 {
		name := n.free[k-1]
		n.free = n.free[:k-1]
		return name
	}
	n.last++
	return n.client + "-" + strconv.Itoa(n.last)
}

// put gives back a name that no key has, and that no request on its way will use.
func (n *names) put(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.free = append(n.free, name)
}
