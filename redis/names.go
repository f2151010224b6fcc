package redis

import (
	"strconv"
	"sync"

	"github.com/anylock/lock/redis/internal/endpoint"
)

// A naming turns keys into the names of Redis keys and channels.
//
// All names of one key hash to the slot of the key itself, so that one script may use them and keys spread over the
// cluster. This holds for any bytes, including braces, because the hash tag is not the key: it is a short precomputed
// text that hashes to the key's slot. Names are the same without a cluster, so that data and clients can move to a
// cluster, or use a proxy to one.
type naming struct{ namespace string }

type names struct{ lock, queue, fence string }

func (n naming) names(key string) names {
	tag := tags()[endpoint.Slot(key)]
	all := n.namespace + ":{" + tag + "}lock:" + key +
		n.namespace + ":{" + tag + "}queue:" + key +
		n.namespace + ":{" + tag + "}fence" // one allocation for all
	base := len(n.namespace) + len(":{}") + len(tag)
	lock := base + len("lock:") + len(key)
	queue := lock + base + len("queue:") + len(key)
	return names{lock: all[:lock], queue: all[lock:queue], fence: all[queue:]}
}

func (n naming) lock(key string) string { return n.names(key).lock }

// channels returns the prefix of the inboxes' channels.
func (n naming) channels() string { return n.namespace + ":inbox:" }

// tags returns, for every slot, a text that hashes to the slot.
var tags = sync.OnceValue(func() []string {
	found := make([]string, endpoint.Slots)
	for i, missing := 0, endpoint.Slots; missing > 0; i++ {
		const base = 36
		tag := strconv.FormatInt(int64(i), base)
		if s := endpoint.Slot(tag); found[s] == "" {
			found[s] = tag
			missing--
		}
	}
	return found
})
