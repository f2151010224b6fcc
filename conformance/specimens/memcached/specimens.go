// Package memcached has well-known wrong ways to lock with Memcached, and the small store from which they are built.
package memcached

import (
	"errors"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance/specimens"
)

// Collection is the specimens of Memcached.
var Collection = specimens.Collection{
	Store:     "Memcached",
	Twin:      open(func(*store) {}),
	Specimens: specimens.Join(owners, expirations),
}

var owners = []specimens.Specimen{
	{
		Name:  "delete-without-ownership",
		Title: "add, and a plain delete",
		Story: "add acquires the lock, and delete releases it. Memcached's delete does not check the owner: a " +
			"holder that was slow, or whose item was evicted, deletes the next holder's lock. With Memcached this is " +
			"likelier than elsewhere, because it may drop any item at any time. Several libraries still do this, " +
			"among them onexstack's distlock.",
		See: "onexstack/distlock, Memcached: a bare Delete",
		Right: "gets, compare the owner, and cas with an expiration in the past: the server swaps only an " +
			"unchanged item.",
		Sin:    []string{"plainDelete"},
		Virtue: []string{"remove", "swap"},
		Open:   open(func(s *store) { s.remove = plainDelete }),
		Kills: []specimens.Kill{
			{Check: "EvictedReleaseSparesNewHolder", Says: "Release of a lease that the store had dropped: <nil>, want ErrLost"},
		},
	},
	{
		Name:  "get-compare-delete",
		Title: "get, compare, and delete without cas",
		Story: "The client compares the owner and then deletes the item, in two commands. The item may expire " +
			"between the two, and then belong to another client. The slower the network, or the longer the pauses of " +
			"the client, the longer this gap.",
		See:    "Memcached protocol, cas: store this data but only if no one else has updated it since I last fetched it",
		Right:  "The swap is conditional on the version with which the owner was read.",
		Sin:    []string{"getCompareDelete"},
		Virtue: []string{"remove", "swap"},
		Open:   open(func(s *store) { s.remove = getCompareDelete }),
		Kills:  []specimens.Kill{{Check: "LateReleaseSparesNext", Says: "a second owner was granted the key"}},
	},
	{
		Name:  "touch-by-anyone",
		Title: "A renewal by touch",
		Story: "touch sets a new expiration, which is what a renewal needs, but it does not check the owner. A " +
			"holder that has lost the lock keeps another client's lock alive, and gets a success reply. gat, which " +
			"touches and reads, returns the owner too late.",
		See:    "Memcached protocol, touch and gat",
		Right:  "gets, compare the owner, and cas with the new expiration.",
		Sin:    []string{"touch"},
		Virtue: []string{"prolong", "swap"},
		Open:   open(func(s *store) { s.prolong = touch }),
		Kills: []specimens.Kill{
			{Check: "EvictedRenewSparesNewHolder", Says: "Renew of a lease that the store had dropped: <nil>, want ErrLost"},
		},
	},
	{
		Name:  "get-then-set",
		Title: "get, then set if the key is missing",
		Story: "The client reads the item, and sets it if it is missing, as a cache is filled. Two clients that " +
			"read at the same moment both find nothing, and both set. The item contains the value of the last set, " +
			"but both clients hold the lock.",
		See:    "Memcached protocol, add: only if the server does not already hold data for this key",
		Right:  "add: the server checks and stores in one step.",
		Sin:    []string{"getThenSet"},
		Virtue: []string{"take"},
		Open:   open(func(s *store) { s.take = getThenSet }),
		Kills:  []specimens.Kill{{Check: "OneAttemptWins", Says: "attempts made at the same moment were granted"}},
	},
}

var expirations = []specimens.Specimen{
	{
		Name:  "ttl-sent-as-it-is",
		Title: "A TTL of one second sent as 1",
		Story: "An expiration of 1 means the next tick of the server's clock. The clock counts whole seconds, so " +
			"the next tick may be a moment away. Measured: an item with an expiration of one second expired after 25 " +
			"ms. Its holder relies on it for a second.",
		See:    "memcached issue 307",
		Right:  "Round up, and add the time by which the server's clock may be behind.",
		Sin:    []string{"asItIs"},
		Virtue: []string{"expiration"},
		Open:   open(func(s *store) { s.expiration = asItIs }),
		Kills:  []specimens.Kill{{Check: "TTLNotEarly", Says: "granted to a second owner"}},
	},
	{
		Name:  "ttl-zero",
		Title: "An expiration of 0",
		Story: "An expiration of 0 means never. It comes from a default that nobody set, or from a TTL below a " +
			"second that was truncated. The lock of a dead holder remains until the cache evicts it or somebody " +
			"restarts the server, which drops all other locks too.",
		See:    "Memcached protocol, exptime: if it's 0, the item never expires",
		Right:  "Refuse it, or round up to the server's unit.",
		Sin:    []string{"never"},
		Virtue: []string{"expiration"},
		Open:   open(func(s *store) { s.expiration = never }),
		Kills:  []specimens.Kill{{Check: "TTLNotLate", Says: "still refused to an attempt made"}},
	},
	{
		Name:  "more-than-thirty-days",
		Title: "A TTL of more than 30 days",
		Story: "Memcached interprets an expiration of more than 30 days as a date, in seconds since 1970. 31 " +
			"days are the first of February 1970: the server replies STORED, and there is no item. Every client gets " +
			"the lock.",
		See:    "Memcached protocol, exptime: the number of seconds may not exceed 60*60*24*30",
		Right:  "Send a longer time as the date on which it ends.",
		Sin:    []string{"secondsOnly"},
		Virtue: []string{"expiration"},
		Open:   open(func(s *store) { s.expiration = secondsOnly }),
		Kills:  []specimens.Kill{{Check: "ExtremesAreAccepted", Says: "granted"}},
	},
}

func plainDelete(s *store, key, _ string) error {
	err := s.client.Delete(name(key))
	if errors.Is(err, memcache.ErrCacheMiss) {
		return backend.ErrLost
	}
	return err
}

func getCompareDelete(s *store, key, owner string) error {
	found, err := holder(s, key)
	if err == nil && found != owner {
		return backend.ErrLost
	}
	if err != nil {
		return err
	}
	return plainDelete(s, key, owner)
}

func touch(s *store, key, _ string, ttl time.Duration) error {
	err := s.client.Touch(name(key), s.expiration(ttl))
	if errors.Is(err, memcache.ErrCacheMiss) {
		return backend.ErrLost
	}
	return err
}

func getThenSet(s *store, key, owner string, ttl time.Duration) (string, error) {
	found, err := holder(s, key)
	if err != nil || found != "" && found != owner {
		return found, err
	}
	return owner, s.client.Set(&memcache.Item{Key: name(key), Value: []byte(owner), Expiration: s.expiration(ttl)})
}

func asItIs(ttl time.Duration) int32 {
	if ttl > mostRelative*time.Second {
		return expiration(ttl)
	}
	return int32(ttl / time.Second)
}

func never(time.Duration) int32 { return 0 }

func secondsOnly(ttl time.Duration) int32 {
	return int32((ttl+time.Second-1)/time.Second) + lag
}
