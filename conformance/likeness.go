package conformance

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

var likenessChecks = []Check{
	{
		Name: "OwnersThatLookAlike",
		Rule: "rules 1, 4 and 5: an owner is known by all of its name: one like it (a part, another case, blanks, " +
			"zeros) is another, and so is one whose name and key together look like those of the other",
		run: ownersThatLookAlike,
	},
	{
		Name:  "EvictedOwnersThatLookAlike",
		Rule:  "rule 5: the store itself refuses renewals and releases by an owner whose name is like the holder's",
		Needs: []Need{needsEvict},
		run:   evictedOwnersThatLookAlike,
	},
	{
		Name: "KeysThatLookAlike",
		Rule: "rule 8: keys that are all number, all accents or all dots, or that differ in how they begin, share nothing",
		run:  keysThatLookAlike,
	},
}

// digits returns a random number of n decimal digits, which no other run of the suite uses.
func digits(n int) string {
	var b [16]byte
	rand.Read(b[:])
	s := fmt.Sprintf("%020d%020d", binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]))
	return "4" + s[len(s)-n+1:]
}

// letters returns a random word.
func letters() string {
	var b [10]byte
	rand.Read(b[:])
	for i := range b {
		b[i] = 'a' + b[i]%26
	}
	return string(b[:])
}

// likePair is two owners with similar names.
type likePair struct{ one, two string }

// ownersAlike returns pairs of new owners with similar names.
func ownersAlike() []likePair {
	word := func() string { return letters() + "-" + hex.EncodeToString([]byte(letters())) }
	var all []likePair
	for _, like := range []func(o string) string{
		func(o string) string { return o + "2" },
		func(o string) string { return "x" + o },
		func(o string) string { return "x" + o + "2" },
		strings.ToUpper,
		func(o string) string { return strings.ToUpper(o[:1]) + o[1:] },
		func(o string) string { return o + " " },
		func(o string) string { return " " + o },
		func(o string) string { return o + "\t" },
		func(o string) string { return o + ":1" },
		func(o string) string { return o + "@" + o },
		func(o string) string { return o + "@host@" + o + ":1" },
		func(o string) string { return strings.Replace(o, "-", "_", 1) }, // _ matches any character in an SQL pattern
		func(o string) string { return strings.Replace(o, "-", "", 1) },
		func(o string) string { return o[:5] + "*" },
		func(o string) string { return o[:5] + "%" },
		func(o string) string { return o[:5] + "?" + o[6:] },
		func(o string) string { return "*" + o[5:] },
		func(o string) string { return ".*" + o[5:] },
		func(o string) string { return `"` + o + `"` },
	} {
		o := word()
		all = append(all, likePair{o, like(o)})
	}
	for _, long := range []int{16, 32, 36, 40, 64, 100, 127, 128, 200, backend.MaxOwnerLen - 1} {
		o := word()
		o += strings.Repeat("y", max(0, long-len(o)))
		o = o[:long]
		all = append(all, likePair{o + "1", o + "2"})
	}
	for _, number := range []string{"0%s", "00%s", "+%s", "%s.0", "%se0", "%s "} {
		n := digits(12)
		all = append(all, likePair{n, fmt.Sprintf(number, n)})
	}
	huge := digits(17)
	all = append(all, likePair{huge + "0", huge + "1"}, likePair{"é" + huge, "e" + huge},
		likePair{huge + "\U0001f511", huge + "\U0001f512"}) // characters of four bytes
	return all
}

func ownersThatLookAlike(t *trial) {
	t.eachPair(t.notTakenFor)
	t.ownersDoNotCollide()
	t.ownersOfKeysApart()
}

// ownersDoNotCollide fails if the store knows owners by a hash of 32 bits.
func (t *trial) ownersDoNotCollide() {
	common := slices.DeleteFunc(hashes(), func(h namedHash) bool { // the others take long to collide
		return h.ends[0] == "" && h.name != "CRC-32 (IEEE)" && h.name != "FNV-1a of 32 bits"
	})
	pairs := collisionsOf(common, letters()+"-")
	t.inChunks(len(pairs), 2, func(i int) { t.notTakenFor(likePair{pairs[i].one, pairs[i].two}) })
}

func evictedOwnersThatLookAlike(t *trial) {
	t.eachPair(t.notRenewedFor)
	t.eachPair(t.notReleasedFor)
	if _, ok := t.a.(backend.BatchRenewer); ok {
		t.eachPair(t.notRenewedInBatchFor)
	}
}

// eachPair calls f for many pairs of owners at once. It tests each kind of pair in both orders.
func (t *trial) eachPair(f func(p likePair)) {
	pairs := ownersAlike()
	for _, p := range ownersAlike() {
		pairs = append(pairs, likePair{p.two, p.one})
	}
	t.inChunks(len(pairs), 2, func(i int) { f(pairs[i]) })
}

// acquireAs is acquire for an owner of the given name.
func (t *trial) acquireAs(b backend.Backend, key, owner string) *grant {
	begun := time.Now()
	g, err := t.request(t.ctx, b, backend.Request{Key: key, Owner: owner, TTL: t.long()})
	t.lateOnTimeout(err, begun)
	if err != nil {
		t.notGranted("owner "+show(owner)+": Acquire of a free key", key, err)
	}
	return g
}

// belongsTo fails unless g holds its key.
func (t *trial) belongsTo(g *grant, when string) {
	if h := t.inspect(g.key); h.Owner != g.owner && g.live(time.Now()) {
		t.fatalf("%s: Inspect says that %s holds the key, want %s", when, show(h.Owner), show(g.owner))
	}
}

// notTakenFor fails if the store confuses p.two with p.one, which holds the key, or with a waiter of a similar name.
func (t *trial) notTakenFor(p likePair) {
	held := t.acquireAs(t.a, t.newKey(), p.one)
	begun := time.Now()
	_, err := t.request(t.ctx, t.b, backend.Request{Key: held.key, Owner: p.two, TTL: t.long()})
	t.lateOnTimeout(err, begun)
	switch {
	case err == nil:
		t.doubleGrant("owner %s was granted the key that %s holds", show(p.two), show(p.one))
	case !errors.Is(err, backend.ErrHeld):
		t.fatalf("owner %s: Acquire of a key that %s holds: %v, want ErrHeld", show(p.two), show(p.one), err)
	}
	t.belongsTo(held, "after an attempt by "+show(p.two))

	// A waiter that gives up must remove only itself: neither the holder nor another waiter.
	like := p.two + "w"
	if len(like) > backend.MaxOwnerLen {
		like = p.two[1:]
	}
	stays := t.waitAs(t.b, held.key, like)
	t.arrived(held.key, 1)
	leaves := t.waitAs(t.b, held.key, p.two)
	t.arrived(held.key, 2)
	leaves.cancelAndFail(t)
	t.queueAtMostOf(held.key, 1)
	when := "after a waiter, " + show(p.two) + ", has left"
	t.belongsTo(held, when)
	t.refused(t.b, held)
	t.renew(held, t.long())
	t.release(held)
	t.release(stays.granted(t, t.handOff(), when+", and the holder has released"))
}

// notRenewedFor fails if a renewal by p.one, whose lease the store has forgotten, renews the lease of p.two, the new
// holder.
func (t *trial) notRenewedFor(p likePair) {
	t.endedFor(p, "Renew", func(g *grant) error { return g.Renew(t.ctx, t.long()/2) })
}

// notRenewedInBatchFor is notRenewedFor for a renewal in a batch.
func (t *trial) notRenewedInBatchFor(p likePair) {
	t.endedFor(p, "RenewBatch", func(g *grant) error { return t.batchOfOne(t.ctx, g, t.long()/2) })
}

// notReleasedFor is notRenewedFor for a release.
func (t *trial) notReleasedFor(p likePair) {
	t.endedFor(p, "Release", func(g *grant) error { return g.Release(t.ctx) })
}

func (t *trial) endedFor(p likePair, what string, request func(forgotten *grant) error) {
	forgotten := t.acquireAs(t.a, t.newKey(), p.one)
	if err := t.h.Evict(t.ctx, forgotten.key); err != nil {
		t.fatalf("Evict: %v", err)
	}
	held := t.acquireAs(t.b, forgotten.key, p.two)
	what = fmt.Sprintf("%s by %s of a key that %s holds", what, show(p.one), show(p.two))
	t.wantLost(what, func() error { return request(forgotten) })
	t.belongsTo(held, what)
	t.remains(held, t.long(), what)
	t.release(held)
}

// keysAlike returns similar keys, all of them new. They have no prefix, so a store may mistake them for something other
// than a key.
func keysAlike() (keys []string) {
	word := letters()
	keys = append(numbersAlike(), word)
	for _, end := range []string{ // digits, accents, and letters of other scripts and forms
		"7", "07", "007", "7.0", "\u0667", "\uff17", "\u2077", "\u2166", "VII",
		"e", "é", "e\u0301", "E", "É", "è", "ê", "u", "ü", "ue", "o", "ø", "ö", "oe", "œ", "l", "ł", "d", "đ", "n", "ñ",
		"n\u0303",
		"c", "ç", "\u0441", "a", "\u0430", "\uff41", "ª", "å", "æ", "ae", "が", "か\u3099", "カ", "か", "\u00ad", "\u200d",
		"\ufe0f",
		"\u3000", "\u0085", ".", "..", "/.", "/..",
	} {
		keys = append(keys, word+end)
	}
	for _, begin := range []string{ // marks, blanks, dots and signs that a store may drop or interpret
		"\ufeff", "\ufffe", "\xef\xbb", "\xff\xfe", "\u200b", "\u2060", "\u3000", "\u00a0", "\u0301", "\x00", "\b", "\v",
		"\x1b",
		"e", "é", "e\u0301", ".", "..", "./", "../", "/", "//", "~", "~/", "$", "@", "#", "-", "--", "+", "!", "*", "%", "=",
		":", ";",
		",", "|", `\`, "_", "^", `"`, "file:", "key:", "lock:", "lock/",
	} {
		keys = append(keys, begin+word)
	}
	for _, around := range []string{`""`, "''", "``", "()", "[]", "<>", "//"} {
		keys = append(keys, around[:1]+word+around[1:])
	}
	return unique(append(keys, strings.ToUpper(word), strings.ToUpper(word[:1])+word[1:]))
}

// numbersAlike returns similar numbers: with extra zeros and signs, in other notations, and numbers that floats or
// integers of 32 and 64 bits cannot distinguish.
func numbersAlike() (keys []string) {
	n, huge := digits(9), digits(17)
	x, _ := strconv.ParseUint(n, 10, 64)
	plus := func(power uint) string {
		x := new(big.Int).SetUint64(x)
		return x.Add(x, new(big.Int).Lsh(big.NewInt(1), power)).String()
	}
	for _, format := range []string{
		"%s", "0%s", "00%s", "+%s", "-%s", "%s.", "%s.0", "%s.00", "%se0", "%sE0", "%s0", "%sn", "%sL", "%sf", " %s", "%s ",
	} {
		keys = append(keys, fmt.Sprintf(format, n))
	}
	for _, format := range []string{"%x", "0x%x", "0X%X", "0%o", "0o%o", "0b%b"} {
		keys = append(keys, fmt.Sprintf(format, x))
	}
	for _, between := range []string{",", "_", " ", ".", "'"} {
		keys = append(keys, n[:3]+between+n[3:])
	}
	return append(keys, huge+"0", huge+"1", huge+"0.5", plus(31), plus(32), plus(63), plus(64), plus(128), digits(31),
		digits(31))
}

func keysThatLookAlike(t *trial) {
	t.separate(keysAlike())
	t.fixedKeys()
}

// fixedKeys tests short keys that cannot be new: other users of the store may hold them. The check judges only what it
// sees of its own owners, and holds each key only for a moment.
func (t *trial) fixedKeys() {
	keys := []string{
		".", "..", "...", "/", "//", "/.", "./", " ", "  ", "\t", "\x00", "0", "00", "-0", "7", "007", "\ufeff",
		"\ufeff\ufeff", "~", "*", "?",
		"%", "_",
		// names that a store might use for data of its own
		"token", "tokens", "counter", "fence", "fencing", "seq", "meta", "schema_version", "waiters",
	}
	before := t.acquire(t.a, t.key, t.long())
	t.release(before)
	for keys := range slices.Chunk(keys, t.h.Many) {
		owners, keyOf := make([]string, len(keys)), make(map[string]string)
		for i, key := range keys {
			owners[i] = backend.NewOwner()
			keyOf[owners[i]] = key
		}
		grants := make([]*grant, len(keys))
		t.inTurns(len(keys), func(i int) {
			begun := time.Now()
			g, err := t.request(t.ctx, t.client(i), backend.Request{Key: keys[i], Owner: owners[i], TTL: 4 * t.short()})
			t.lateOnTimeout(err, begun)
			if err != nil && !errors.Is(err, backend.ErrHeld) && !errors.Is(err, backend.ErrLost) {
				t.fatalf("key %s: Acquire: %v", show(keys[i]), err)
			}
			if errors.Is(err, backend.ErrHeld) {
				t.isSomebodys(keys[i])
			}
			grants[i] = g
		})
		t.inTurns(len(keys), func(i int) {
			if other, ours := keyOf[t.inspect(keys[i]).Owner]; ours && other != keys[i] {
				t.fatalf("key %s is held when key %s was granted: they are taken for one", show(keys[i]), show(other))
			}
		})
		for _, g := range grants {
			if g != nil {
				_ = g.Release(t.ctx) // if it fails, the TTL ends the lease
			}
		}
	}
	after := t.free(t.b, t.key, "after leases of keys that a store might use itself")
	if t.g.Fencing > backend.FencingNone && after.Token() <= before.Token() {
		t.breaks(7, "token %d after %d, and leases of keys that a store might use itself", after.Token(), before.Token())
	}
}

// isSomebodys fails if attempts at key are refused time after time, and Inspect says each time that nobody holds it.
func (t *trial) isSomebodys(key string) {
	const attempts = 8
	for range attempts {
		if t.inspect(key).Held() {
			return
		}
		time.Sleep(tick)
		g, err := t.attempt(t.a, key, t.short())
		if err == nil {
			_ = g.Release(t.ctx)
		}
		if !errors.Is(err, backend.ErrHeld) {
			return
		}
	}
	t.breaks(8, "key %s is refused %d times, and Inspect says each time that nobody holds it: the store may use it itself",
		show(key), attempts)
}
