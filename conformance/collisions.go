package conformance

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

var collisionChecks = []Check{
	{
		Name: "KeysDoNotCollide",
		Rule: "rule 8: keys are not their hash: keys with the same hash of 32 bits, or any of 16, share nothing",
		run:  keysDoNotCollide,
	},
	{
		Name: "KeysAreNotTheirEncoding",
		Rule: "rule 8: a key shares nothing with its own escaped form, its digest, or the names that stores derive from it",
		run:  keysAreNotTheirEncoding,
	},
}

// A collision is two keys with the same hash.
type collision struct {
	hash     string
	one, two string
}

// collisions returns a pair of keys for each hash of hashes. All keys begin with prefix.
func collisions(prefix string) []collision { return collisionsOf(hashes(), prefix) }

// collisionsOf is collisions for some hashes.
func collisionsOf(some []namedHash, prefix string) (all []collision) {
	table := make([]candidate, candidateSlots)
	for i, h := range some {
		begin := prefix + strconv.Itoa(i) + "-" // no key is in two pairs
		if h.ends[0] != "" {
			all = append(all, collision{h.name, begin + h.ends[0], begin + h.ends[1]})
			continue
		}
		clear(table)
		all = append(all, collide(h, begin, table))
	}
	return all
}

// A candidate is an entry of an open hash table: the hash of the nth key that was tried. nth is 0 in an empty slot. At
// least half of the slots remain empty.
type candidate struct{ sum, nth uint32 }

const (
	candidateBits  = 20
	candidateSlots = 1 << candidateBits
)

// collide returns two keys of the same length with the same hash. For a hash of 32 bits it tries about 82,000 keys, the
// square root of π/2 × 2³².
func collide(h namedHash, prefix string, table []candidate) collision {
	key := make([]byte, len(prefix)+16)
	copy(key, prefix)
	nth := func(n uint32) []byte { // letters made by SplitMix64, because CRCs of similar keys never collide
		x := uint64(n) * 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
		for i := len(prefix); i < len(key); i++ {
			key[i] = "abcdefghijklmnop"[x&15]
			x >>= 4
		}
		return key
	}
	for n := uint32(1); n < candidateSlots/2; n++ {
		sum := h.sum(nth(n))
		for i := sum * 2654435761 >> (32 - candidateBits); ; i = (i + 1) % candidateSlots {
			if table[i].nth == 0 {
				table[i] = candidate{sum, n}
				break
			}
			if table[i].sum == sum {
				two := string(key)
				return collision{h.name, string(nth(table[i].nth)), two}
			}
		}
	}
	panic("no two of half a million keys have the same " + h.name)
}

func keysDoNotCollide(t *trial) {
	t.shortHash()
	all := collisions(t.key + "-")
	workers := min(8, t.h.Many/2)
	t.together(workers, func(i int) {
		for ; i < len(all) && !t.ended(); i += workers {
			t.apart(all[i])
		}
	})
}

// apart fails unless both keys of c can be held at once, by two clients or by one, and Inspect distinguishes them.
func (t *trial) apart(c collision) {
	for _, clients := range [][2]backend.Backend{{t.a, t.b}, {t.b, t.b}} {
		one := t.acquire(clients[0], c.one, t.long())
		two, err := t.attempt(clients[1], c.two, t.long())
		if err != nil {
			t.notGranted(fmt.Sprintf("while %s is held, Acquire of %s, whose %s is the same", show(c.one), show(c.two), c.hash),
				c.two, err)
		}
		for _, g := range []*grant{one, two} {
			if h := t.inspect(g.key); h.Owner != g.owner {
				t.breaks(8, "Inspect says that %q holds %s, want %q; another key with the same %s is held too", h.Owner,
					show(g.key), g.owner, c.hash)
			}
		}
		t.release(one)
		t.refused(t.a, two)
		t.release(two)
	}
}

// shortHash holds many keys and acquires others. A store that compares hashes of 16 bits or fewer refuses some of the
// others.
func (t *trial) shortHash() {
	const (
		hash   = 1 << 16
		enough = 12              // expected collisions: all are missed in one run of 160,000
		most   = 20_000          // tries
		atMost = 3 * time.Second // slow stores, and stores that hold few leases, are tested less thoroughly
	)
	workers := min(8, t.h.Many/2)
	each := t.h.Many - workers
	held := make([][]*grant, workers)
	t.together(workers, func(i int) {
		for n := i; n < 2*each; n += workers {
			held[i] = append(held[i], t.acquire(t.client(n), t.newKey(), t.long()))
		}
	})
	end := time.Now().Add(atMost)
	tries := min(hash*enough/(2*each), most)
	t.together(workers, func(i int) {
		for n := i; n < tries && time.Now().Before(end) && !t.ended(); n += workers {
			key := t.newKey()
			g, err := t.attempt(t.client(n/workers), key, t.long())
			if err != nil {
				t.notGranted(fmt.Sprintf("%d keys are held, and %s is not among them: Acquire", 2*each, show(key)), key, err)
			}
			t.release(g)
		}
	})
	t.together(workers, func(i int) {
		for _, g := range held[i] {
			t.release(g)
		}
	})
}

func keysAreNotTheirEncoding(t *trial) {
	t.apartFromDerived()
	k := t.key + `/a b:c%"<é` + "\x00\xff"
	for len(k) <= 250 { // many stores encode longer keys differently
		t.separate(unique(append(encodings(k), k)))
		k += strings.Repeat("/x y", 60)
	}
	t.separate(append(digests(k), k))
	// Keys of several parts with a separator: keys of different parts must stay different keys.
	var cut []string
	for _, sep := range []string{":", "/", "-", "_", ".", ",", "|", "#", "@", " ", "\x00", "::", "%2F"} {
		cut = append(cut, t.key+sep+"b", t.key+sep+sep+"b", t.key+sep, sep+t.key, t.key+sep+"b"+sep+"c", t.key+sep+"b"+sep)
	}
	t.separate(unique(cut))
	t.separate(t.differIn())
}

// separate fails unless all keys can be held at once, by both clients in turn, and Inspect returns each key's own
// owner.
func (t *trial) separate(keys []string) {
	for keys := range slices.Chunk(keys, t.h.Many) {
		grants := make([]*grant, len(keys))
		t.inTurns(len(keys), func(i int) {
			g, err := t.attempt(t.client(i), keys[i], t.long())
			if err != nil {
				t.notGranted("key "+show(keys[i])+": Acquire", keys[i], err)
			}
			grants[i] = g
		})
		// Inspect only now, when all keys are held.
		t.inTurns(len(keys), func(i int) {
			g := grants[i]
			if h := t.inspect(g.key); h.Owner != g.owner && g.live(time.Now()) {
				t.breaks(8, "key %s: Inspect says that %q holds it, want %q%s", show(g.key), h.Owner, g.owner, t.sharedWith(g.key))
			}
			t.release(g)
		})
	}
}

// apartFromDerived acquires keys whose names a store might derive from the trial's key, while that key is held and has
// a waiter.
func (t *trial) apartFromDerived() {
	var derived []string
	for _, name := range []string{
		"lock", "locks", "queue", "q", "waiters", "wait", "token", "tokens", "fence", "fencing", "counter", "seq", "owner",
		"ttl",
		"expires", "inbox", "channel", "meta", "lease", "holder", "read", "write", "0", "1", "0000000000", "0000000001",
		"lock-0000000000",
	} {
		derived = append(derived, t.key+":"+name, t.key+"/"+name, t.key+"."+name, name+":"+t.key, name+"/"+t.key)
	}
	derived = append(derived, "{"+t.key+"}:queue", "{"+t.key+"}:token", "lock:{"+t.key+"}",
		"redisson_lock__channel:{"+t.key+"}",
		"/"+t.key+"/", t.key+"~", t.key+".tmp", t.key+"-journal", "."+t.key, "_"+t.key, "__"+t.key+"__")
	held := t.acquire(t.a, t.key, t.long())
	w := t.wait(t.b, t.key, t.long())
	t.arrived(t.key, 1)
	t.separate(derived)
	t.heldBy(held)
	t.release(held)
	t.release(w.granted(t, t.handOff(), "after release, when keys with names like its own had been used"))
}

// encodings returns k in the encodings that are used where not every byte is allowed, and its digests.
func encodings(k string) []string {
	raw := []byte(k)
	percent := func(format string) string {
		var b strings.Builder
		for _, c := range raw {
			fmt.Fprintf(&b, format, c)
		}
		return b.String()
	}
	all := append(digests(k),
		hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)), "0x"+hex.EncodeToString(raw),
		`\x`+hex.EncodeToString(raw),
		base64.StdEncoding.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw),
		base64.URLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
		base32.StdEncoding.EncodeToString(raw), base32.HexEncoding.EncodeToString(raw),
		strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(raw)),
		url.PathEscape(k), url.QueryEscape(k), url.QueryEscape(url.QueryEscape(k)), strings.ToLower(url.QueryEscape(k)),
		percent("%%%02X"), percent("%%%02x"), percent("_%02x"), percent("=%02X"), percent(`\%03o`), percent(`\x%02x`),
		percent("&#%d;"),
		strconv.Quote(k), strconv.QuoteToASCII(k), html.EscapeString(k), strings.ToValidUTF8(k, "?"),
		strings.ReplaceAll(k, "%", "%%"), strings.ReplaceAll(k, "/", "%2F"), strings.ReplaceAll(k, "/", "%2f"),
		strings.ReplaceAll(k, "/", "_"), strings.ReplaceAll(k, "/", "-"), strings.ReplaceAll(k, "/", "."),
		strings.ReplaceAll(k, "/", ":"), strings.ReplaceAll(k, "/", `\`), strings.ReplaceAll(k, "/", ""),
		strings.ReplaceAll(k, "/", "//"),
		strings.ReplaceAll(k, " ", "+"), strings.ReplaceAll(k, " ", "_"), strings.ReplaceAll(k, " ", ""),
		strings.ReplaceAll(k, ":", "_"),
		strings.ReplaceAll(k, "\x00", ""), strings.ReplaceAll(k, "\x00", `\0`), strings.ReplaceAll(k, "\xff", "\ufffd"),
	)
	all = slices.DeleteFunc(all, func(e string) bool { return e == k || len(e) > backend.MaxKeyLen })
	return all
}

// unique sorts keys and removes duplicates.
func unique(keys []string) []string {
	slices.Sort(keys)
	return slices.Compact(keys)
}

// digests returns the digests to which a store might shorten a long k.
func digests(k string) (all []string) {
	m, s, l := md5.Sum([]byte(k)), sha1.Sum([]byte(k)), sha256.Sum256([]byte(k))
	for _, sum := range [][]byte{m[:], s[:], l[:]} {
		text := hex.EncodeToString(sum)
		all = append(all, text, strings.ToUpper(text), string(sum), base64.StdEncoding.EncodeToString(sum),
			base64.RawURLEncoding.EncodeToString(sum))
	}
	return all
}

// differIn returns keys of the greatest length. Each key differs from the last one in a single byte.
func (t *trial) differIn() (keys []string) {
	long := []byte(t.key + strings.Repeat("x", backend.MaxKeyLen-len(t.key)))
	for _, n := range []int{32, 63, 64, 65, 100, 127, 128, 129, 199, 200, 201, 249, 250, 251, 254, 255, 256, 257, 500, 511,
		512, 513, 767,
		768, 999, 1000, 1001, 1022, 1023} {
		other := append([]byte(nil), long...)
		other[n] = 'y'
		keys = append(keys, string(other))
	}
	return append(keys, string(long))
}
