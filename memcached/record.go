package memcached

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

// A record is the value of a lock's item, such as "anylock 2 0 16 10 4f0c9a@web:4711 invoice/42". A lock is stored
// before its token is drawn. The token is then appended with its owner, as in " 42 16 4f0c9a@web:4711". If another
// owner has the lock by then, decode ignores the token. A renewal writes a new record, which contains the token in its
// first field.
type record struct {
	token uint64 // 0 until it is drawn
	owner string
	key   string
}

const recordHead = "anylock 2 " // 2 is the version of the format

// errForeign reports an item with a lock's name that is not a lock of this key.
var errForeign = errors.New("the item with the lock's name was not written by this package, or for another key")

func (r record) encode() []byte {
	return fmt.Appendf(nil, "%s%d %d %d %s %s", recordHead, r.token, len(r.owner), len(r.key), r.owner, r.key)
}

// encodeToken returns the text that is appended to the record when its token is drawn.
func (r record) encodeToken() []byte {
	return fmt.Appendf(nil, " %d %d %s", r.token, len(r.owner), r.owner)
}

// decode returns the record of key, or errForeign.
func decode(value []byte, key string) (record, error) {
	rest, ok := strings.CutPrefix(string(value), recordHead)
	d := decoder{rest, ok}
	token, ownerLen, keyLen := d.number(), d.number(), d.number()
	r := record{token: token, owner: d.text(ownerLen), key: d.text(keyLen)}
	if !d.ok || r.owner == "" || r.key != key {
		return record{}, errForeign
	}
	for d.rest != "" { // appended tokens
		token, ownerLen := d.number(), d.number()
		owner := d.text(ownerLen)
		if !d.ok {
			return record{}, errForeign
		}
		if owner == r.owner {
			r.token = max(r.token, token) // a lower one was drawn before, and its append arrived late
		}
	}
	return r, nil
}

// A decoder reads the fields of a record, which single spaces separate.
type decoder struct {
	rest string
	ok   bool
}

func (d *decoder) number() uint64 {
	word, rest, _ := strings.Cut(d.rest, " ")
	n, err := strconv.ParseUint(word, 10, 64)
	d.rest, d.ok = rest, d.ok && err == nil
	return n
}

// text reads a field of n bytes.
func (d *decoder) text(n uint64) string {
	if length := uint64(len(d.rest)); !d.ok || n > length || n < length && d.rest[n] != ' ' {
		d.ok = false
		return ""
	}
	s := d.rest[:n]
	d.rest = strings.TrimPrefix(d.rest[n:], " ")
	return s
}

// describe returns the record as a holder, without the TTL. The client library cannot request an item's remaining TTL,
// and a date in the item would depend on another client's clock.
func (r record) describe() backend.Holder {
	return backend.Holder{Owner: r.owner, Token: r.token, Waiters: -1}
}

// read returns the lock of key, or nil if there is none.
func read(c *connection, name, key string) (*record, error) {
	item, err := c.get(name)
	if errors.Is(err, memcache.ErrCacheMiss) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := decode(item.Value, key)
	if err != nil {
		return nil, err
	}
	return &r, nil
}
