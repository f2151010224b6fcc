package etcd

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/anylock/lock/backend/kit"
)

const nameMark = "~"

var encoding = kit.Encoding{Extra: "."}

// prefix returns the prefix of the keys of all contenders for key. No other key has that prefix. The keys end in a name
// that the contender's client chose:
//
//	<namespace>/~<key, escaped>/<client>-<number>
//
// The ~ separates a key from a longer namespace, because no part of a namespace may begin with ~. Escaping separates
// the key a from the key a/b. The value is the owner.
func (o *Options) prefix(key string) string {
	return o.Namespace + "/" + nameMark + encoding.Encode(key) + "/"
}

// sharedMark is the first letter of the names of contenders for a shared lease. Other names begin with a hexadecimal
// digit. So the keys of a lock's exclusive contenders are adjacent, and sort before those of its shared contenders.
const sharedMark = "s"

// A keyRange contains the keys from first up to, but not including, end.
type keyRange struct{ first, end string }

// allKeys, exclusiveKeys and sharedKeys return the ranges of all, the exclusive and the shared contenders' keys under
// prefix.
func allKeys(prefix string) keyRange       { return keyRange{prefix, clientv3.GetPrefixRangeEnd(prefix)} }
func exclusiveKeys(prefix string) keyRange { return keyRange{prefix, prefix + sharedMark} }
func sharedKeys(prefix string) keyRange    { return allKeys(prefix + sharedMark) }

func (r keyRange) isEmpty() clientv3.Cmp {
	return createdAt(r.first, 0).WithRange(r.end)
}

// get returns the operation that reads the keys, sorted by creation in the given order.
func (r keyRange) get(order clientv3.SortOrder, opts ...clientv3.OpOption) clientv3.Op {
	opts = append(opts, clientv3.WithRange(r.end), clientv3.WithSort(clientv3.SortByCreateRevision, order))
	return clientv3.OpGet(r.first, opts...)
}

// isShared reports whether a contender's key is for a shared lease.
func isShared(key []byte) bool {
	name := key[bytes.LastIndexByte(key, '/')+1:]
	return bytes.HasPrefix(name, []byte(sharedMark))
}

// names generates the names of a client's contenders. No two contenders have the same name at the same time.
//
// Names are reused because etcd's index keeps every deleted key until the next compaction. To find the live keys under
// a prefix, etcd searches all of them, so with a new name for each owner, each acquire would cost more than the last. A
// name is not reused if a request without a reply may still change its key.
type names struct {
	client string

	mu   sync.Mutex
	free []string // the most recently used last
	last int
}

func newNames() *names {
	var b [8]byte
	rand.Read(b[:]) // never fails since Go 1.24
	return &names{client: hex.EncodeToString(b[:])}
}

// next returns a name that no contender uses.
func (n *names) next() string {
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

// reuse makes name available to next again. No key may have the name, and no request under way may use it.
func (n *names) reuse(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.free = append(n.free, name)
}

// A contender is a key in the queue; the holder's key is the first. Names are reused, so a contender is identified by
// the creation revision of its key. No request deletes, watches or reads a contender by its key alone.
type contender struct {
	key     string
	created int64
}

func contenderOf(kv *mvccpb.KeyValue) contender { return contender{string(kv.Key), kv.CreateRevision} }

// created holds if the key was created at a revision; 0 means that the key does not exist.
func createdAt(key string, at int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", at)
}

func unmodified(key string, since int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", since)
}

// isIn reports whether found, the result of reading the contender's key, contains the contender.
func (c contender) isIn(found []*mvccpb.KeyValue) bool {
	return len(found) > 0 && found[0].CreateRevision == c.created
}

// lastWrites returns the revision of each contender's latest write, or 0 if its key does not exist, as of the revision
// at, or of the present if at is 0.
func (b *Backend) lastWrites(ctx context.Context, at int64, list ...contender) ([]int64, error) {
	gets := make([]clientv3.Op, len(list))
	for i, c := range list {
		gets[i] = clientv3.OpGet(c.key, clientv3.WithKeysOnly())
	}
	resp, err := b.readAt(ctx, at, gets...)
	if err != nil {
		return nil, err
	}
	writes := make([]int64, len(list))
	for i, c := range list {
		if resp.Header.Revision < c.created { // a stale read of an old server: see version.go
			return nil, errNoAnswer
		}
		if kvs := keysRead(resp, i); list[i].isIn(kvs) {
			writes[i] = kvs[0].ModRevision
		}
	}
	return writes, nil
}
