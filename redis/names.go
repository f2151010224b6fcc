package redis

import (
	"strconv"
	"sync"

	"github.com/anylock/lock/redis/internal/endpoint"
)

// A naming turns keys into the names of Redis keys and channels.
//
// All names of one key hash to one cluster slot, the slot of the key itself, so that scripts may touch them together
// and keys spread over the cluster. That holds for any bytes, braces too, because the hash tag is not the key: it is a
// short text, found in advance, that hashes to the key's slot. The same names are used without a cluster, so that data
// and clients may move to one, or sit behind a proxy to one.
type naming struct{ namespace string }

type names struct{ lock, queue, fence string }

func (n naming) names(key string) names {
	tag := tags()[endpoint.Slot(key)]
	all := n.namespace + ":{" + tag + "}lock:" + key +
		n.namespace + ":{" + tag + "}queue:" + key +
		n.namespace + ":{" + tag + "}fence" // one piece of memory for all
	base := len(n.namespace) + len(":{}") + len(tag)
	// Where one ends and the next begins.
	lock := base + len("lock:") + len(key)
	queue := lock + base + len("queue:") + len(key)
	return names{lock: all[:lock], queue: all[lock:queue], fence: all[queue:]}
}

func (n naming) lock(key string) string {
	return n.namespace + ":{" + tags()[endpoint.Slot(key)] + "}lock:" + key
}

// channels is the prefix of the channels of inboxes.
func (n naming) channels() string { return n.namespace + ":inbox:" }

// tags holds for every slot a text that hashes to it.
var tags = sync.OnceValue(func() []string {
	found := make([]string, endpoint.Slots)
	for i, left := 0, endpoint.Slots; left > 0; i++ {
		const base = 36
		tag := strconv.FormatInt(int64(i), base)
		if s := endpoint.Slot(tag); found[s] == "" {
			found[s] = tag
			left--
		}
	}
	return found
})
