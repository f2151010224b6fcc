package zookeeper

import (
	"cmp"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// keyNames encodes keys as names of containers below the root. '.' is escaped, because ZooKeeper forbids "." and ".."
// as names.
var keyNames = kit.Encoding{Extra: ":@=,+"}

// ownerNames encodes owners in the names of their nodes, so that a refused attempt finds the holder with one request.
var ownerNames = kit.Encoding{Extra: ":@."}

const (
	nodeBegin = "_c_" // the prefix of protected nodes in other libraries
	rootPath  = "/"
)

// A mode is the kind of request that created a node. It is part of the node's name, before the number that the server
// appends.
type mode string

const (
	exclusive       mode = "-lock-"
	exclusiveNoWait mode = "-try-" // exclusive, of a request that does not wait
	shared          mode = "-shared-"
)

func modeOf(r backend.Request) mode {
	switch {
	case r.Shared:
		return shared
	case r.Wait:
		return exclusive
	}
	return exclusiveNoWait
}

// nodePrefix returns a new, unique beginning of a node's name. After an unanswered create, the node is found by its
// prefix. An owner that queues again uses another prefix, so cleaning up after the first node cannot delete the
// second.
func nodePrefix(owner string, m mode) string {
	return nodeBegin + ownerNames.Encode(owner) + "." + strconv.FormatUint(rand.Uint64(), 16) + string(m)
}

// A place is one node in the queue of a key.
type place struct {
	name   string
	prefix string // of the name, before the number; unique
	number int32
	mode   mode
}

// parsePlace parses the name of a child. ok is false for a child that this store did not create.
func parsePlace(name string) (p place, ok bool) {
	i := len(strings.TrimRight(name, "0123456789"))
	if strings.HasSuffix(name[:i], "--") { // the number is negative
		i--
	}
	prefix := name[:i]
	for _, m := range [...]mode{exclusive, exclusiveNoWait, shared} {
		if !strings.HasSuffix(prefix, string(m)) {
			continue
		}
		n, err := strconv.ParseInt(name[i:], 10, 32)
		if err != nil || !strings.HasPrefix(prefix, nodeBegin) || len(prefix) < len(nodeBegin)+len(m) {
			return place{}, false
		}
		return place{name: name, prefix: prefix, number: int32(n), mode: m}, true
	}
	return place{}, false
}

// owner returns the owner in the name, or the name itself if it contains none because another program has created the
// node.
func (p place) owner() string {
	s := strings.TrimSuffix(strings.TrimPrefix(p.prefix, nodeBegin), string(p.mode))
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		s = s[:i]
	}
	owner, _ := ownerNames.Decode(s)
	return cmp.Or(owner, p.name)
}

// record returns the data of a node. token is 0, unless the node was moved: then its zxid is no longer its token. The
// owner is for people.
func record(token uint64, owner string) []byte {
	return []byte(strconv.FormatUint(token, 10) + " " + owner)
}

// recordedToken returns the token in the data of a node.
func recordedToken(data []byte) uint64 {
	number, _, _ := strings.Cut(string(data), " ")
	token, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0 // another program has written the data
	}
	return token
}
