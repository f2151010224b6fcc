package memcached

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

// A record is the value of a lock's item, such as "anylock 1 0 42 4f0c…9a@web-3:4711 invoice/42".
type record struct {
	token uint64 // 0 until the first renewal: a lock is stored before its token is drawn
	owner string
	key   string
}

const recordHead = "anylock 1 " // 1 is the version of the format

// errForeign reports an item with a lock's name that is not a lock of this key.
var errForeign = errors.New("the item with the lock's name was not written by this package, or for another key")

func (r record) encode() []byte {
	return fmt.Appendf(nil, "%s%d %d %s %s", recordHead, r.token, len(r.owner), r.owner, r.key)
}

// decode returns the record of key, or errForeign.
func decode(value []byte, key string) (record, error) {
	rest, ok := strings.CutPrefix(string(value), recordHead)
	token, rest, ok2 := strings.Cut(rest, " ")
	length, rest, ok3 := strings.Cut(rest, " ")
	t, err := strconv.ParseUint(token, 10, 64)
	n, err2 := strconv.ParseUint(length, 10, 16)
	bad := !ok || !ok2 || !ok3 || err != nil || err2 != nil || n == 0 || uint64(len(rest)) < n+1
	if bad || rest[n] != ' ' || rest[n+1:] != key {
		return record{}, errForeign
	}
	return record{token: t, owner: rest[:n], key: key}, nil
}

// describe returns the record as a holder, without its TTL: the client library cannot request an item's remaining TTL,
// and a date in the item would be by another client's clock.
func (r record) describe() backend.Holder {
	return backend.Holder{Owner: r.owner, Token: r.token, Waiters: -1}
}

// read returns the lock of key, or nil if there is none.
func read(c *connection, name, key string) (*record, error) {
	item, err := c.Get(name)
	if errors.Is(err, memcache.ErrCacheMiss) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := checkCAS(item); err != nil {
		return nil, err
	}
	r, err := decode(item.Value, key)
	if err != nil {
		return nil, err
	}
	return &r, nil
}
