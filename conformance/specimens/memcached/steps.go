package memcached

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
)

// name is the item of a key. Names of items are short, without blanks: a digest stands for the key.
func name(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "specimen:" + hex.EncodeToString(sum[:])
}

const (
	mostRelative = 30 * 24 * 60 * 60 // seconds from now; a greater expiration is a date
	gone         = -1                // as an expiration: at once
	// lag is how many seconds the server's clock, which it looks at about once a second, may be behind.
	lag = 2
)

// expiration rounds up and adds the clock's lag. A longer time than 30 days must be sent as a date.
func expiration(ttl time.Duration) int32 {
	n := int64((ttl+time.Second-1)/time.Second) + lag
	if n > mostRelative {
		n += time.Now().Unix()
	}
	return int32(n)
}

// take adds the item, which the server refuses if there is one. If that is its own, of an earlier request, it counts
// anew.
func take(s *store, key, owner string, ttl time.Duration) (string, error) {
	err := s.client.Add(&memcache.Item{Key: name(key), Value: []byte(owner), Expiration: s.expiration(ttl)})
	if !errors.Is(err, memcache.ErrNotStored) {
		return owner, err
	}
	found, err := holder(s, key)
	switch {
	case err != nil:
		return "", err
	case found == "": // it has gone in between
		return "nobody", nil
	case found == owner:
		return owner, s.prolong(s, key, owner, ttl)
	}
	return found, nil
}

func prolong(s *store, key, owner string, ttl time.Duration) error {
	return swap(s, key, owner, s.expiration(ttl))
}

func remove(s *store, key, owner string) error { return swap(s, key, owner, gone) }

// swap gives the item of owner another expiration. The server does it only if nobody has touched the item since its
// owner was looked at.
func swap(s *store, key, owner string, expiration int32) error {
	item, err := s.client.Get(name(key))
	switch {
	case errors.Is(err, memcache.ErrCacheMiss):
		return backend.ErrLost
	case err != nil:
		return err
	case string(item.Value) != owner:
		return backend.ErrLost
	}
	item.Expiration = expiration
	err = s.client.CompareAndSwap(item)
	switch {
	case errors.Is(err, memcache.ErrCASConflict):
		return swap(s, key, owner, expiration)
	case errors.Is(err, memcache.ErrCacheMiss), errors.Is(err, memcache.ErrNotStored):
		return backend.ErrLost
	}
	return err
}

// holder is the owner in the item of key, or empty.
func holder(s *store, key string) (string, error) {
	item, err := s.client.Get(name(key))
	switch {
	case errors.Is(err, memcache.ErrCacheMiss):
		return "", nil
	case err != nil:
		return "", err
	}
	return string(item.Value), nil
}
