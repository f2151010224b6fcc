package zookeeper

import (
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/anylock/lock/backend/kit"
)

// Keys are containers below the root. '.' is escaped, because ZooKeeper forbids "." and ".." as names.
var keyNames = kit.Encoding{Extra: ":@=,+"}

// Owners are in the names of their nodes, so that a refused attempt finds the holder with one request. A long owner is
// cut in the name, and whole only in the node's data.
var ownerNames = kit.Encoding{Max: 200, Extra: ":@."}

const (
	nodeBegin    = "_c_"      // as protected nodes of other libraries begin
	exclusiveEnd = "-lock-"   // the mode of the request, before the number that the server appends
	sharedEnd    = "-shared-" // the other mode
	hexDigits    = 16         // base
	counter      = 10         // base
	bits32       = 32         // of the server's counter
	rootPath     = "/"
)

// nodePrefix returns a new, unique beginning of a node's name. After an unanswered create, the node is found by its
// prefix. An owner that queues again uses another prefix, so cleaning up after the first node cannot delete the
// second.
func nodePrefix(owner string, shared bool) string {
	end := exclusiveEnd
	if shared {
		end = sharedEnd
	}
	return nodeBegin + ownerNames.Encode(owner) + "." + strconv.FormatUint(rand.Uint64(), hexDigits) + end
}

// A place is one node in the queue of a key.
type place struct {
	name   string
	prefix string
	number int32
	shared bool // the node of a shared request or lease
}

// parsePlace parses the name of a child. ok is false for a child that this store did not create.
func parsePlace(name string) (p place, ok bool) {
	if !strings.HasPrefix(name, nodeBegin) {
		return place{}, false
	}
	for _, end := range []string{exclusiveEnd, sharedEnd} { // an owner may contain either; only one precedes the number
		i := strings.LastIndex(name, end)
		if i < len(nodeBegin) {
			continue
		}
		i += len(end)
		if n, err := strconv.ParseInt(name[i:], counter, bits32); err == nil {
			return place{name: name, prefix: name[:i], number: int32(n), shared: end == sharedEnd}, true
		}
	}
	return place{}, false
}

// owner returns the owner in the name, empty if it was cut.
func (p place) owner() string {
	end := exclusiveEnd
	if p.shared {
		end = sharedEnd
	}
	s := strings.TrimSuffix(strings.TrimPrefix(p.prefix, nodeBegin), end)
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		s = s[:i]
	}
	owner, _ := ownerNames.Decode(s)
	return owner
}

// record returns the data of a node: the owner, and the token of a node that was moved, whose zxid is another one.
func record(token uint64, owner string) []byte {
	return []byte(strconv.FormatUint(token, counter) + " " + owner)
}

// parseRecord parses the data of a node.
func parseRecord(data []byte) (token uint64, owner string, ok bool) {
	number, owner, found := strings.Cut(string(data), " ")
	token, err := strconv.ParseUint(number, counter, 64)
	return token, owner, found && err == nil && owner != ""
}
