package zookeeper

import (
	"cmp"
	"math/rand/v2"
	"slices"
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
	nodeBegin = "_c_"    // as protected nodes of other libraries begin
	nodeEnd   = "-lock-" // and ends, before the number that the server appends
	hexDigits = 16       // base
	counter   = 10       // base
	bits32    = 32       // of the server's counter
	rootPath  = "/"
)

// nodePrefix returns a new, unique beginning of a node's name. After an unanswered create, the node is found by its
// prefix. An owner that queues again uses another prefix, so cleaning up after the first node cannot delete the
// second.
func nodePrefix(owner string) string {
	return nodeBegin + ownerNames.Encode(owner) + "." + strconv.FormatUint(rand.Uint64(), hexDigits) + nodeEnd
}

// A place is one node in the queue of a key.
type place struct {
	name   string
	prefix string
	number int32
}

// parsePlace parses the name of a child. ok is false for a child that this store did not create.
func parsePlace(name string) (p place, ok bool) {
	i := strings.LastIndex(name, nodeEnd)
	if i < len(nodeBegin) || !strings.HasPrefix(name, nodeBegin) {
		return place{}, false
	}
	i += len(nodeEnd)
	n, err := strconv.ParseInt(name[i:], counter, bits32)
	if err != nil {
		return place{}, false
	}
	return place{name: name, prefix: name[:i], number: int32(n)}, true
}

// owner returns the owner in the name, empty if it was cut.
func (p place) owner() string {
	s := strings.TrimSuffix(strings.TrimPrefix(p.prefix, nodeBegin), nodeEnd)
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		s = s[:i]
	}
	owner, _ := ownerNames.Decode(s)
	return owner
}

// placesOf returns the places among children, in any order.
func placesOf(children []string) (all []place) {
	for _, name := range children {
		if p, ok := parsePlace(name); ok {
			all = append(all, p)
		}
	}
	return all
}

// queueOf returns the places of a key in order, without those whose numbers give no order: see lastNumber.
func queueOf(children []string) []place {
	q := slices.DeleteFunc(placesOf(children), func(p place) bool { return !isOrdered(p.number) })
	slices.SortFunc(q, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.name, b.name))
	})
	return q
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
