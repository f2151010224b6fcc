package conformance_test

import (
	"hash/crc32"
	"math/big"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

// likenessMutants are bugs that confuse owners, keys or holders that look alike.
var likenessMutants = []mutant{
	{"attempt knows its owner by a prefix", "OwnersThatLookAlike"},
	{"attempt looks for its owner in the holder's", "OwnersThatLookAlike"},
	{"release knows its owner by a prefix", "OwnersThatLookAlike"},
	{"release looks for its owner in the holder's", "OwnersThatLookAlike"},
	{"leaving waiter is known by a prefix", "OwnersThatLookAlike"},
	{"renewal knows its owner by a prefix", "EvictedOwnersThatLookAlike"},
	{"renewal looks for its owner in the holder's", "EvictedOwnersThatLookAlike"},
	{"release knows its owner by a suffix", "EvictedOwnersThatLookAlike"},
	{"batch knows its owner by a prefix", "EvictedOwnersThatLookAlike"},
	{"batch looks for its owner in the holder's", "EvictedOwnersThatLookAlike"},
	{"break knows its owner by a prefix", "BreakEndsOneLease"},
	{"break knows its owner by a suffix", "BreakEndsOneLease"},
	{"owners are alike in any case", "OwnersThatLookAlike"},
	{"owners are alike in any case", "BreakEndsOneLease"},
	{astralOwners, "OwnersThatLookAlike"},
	{"owners are trimmed of blanks", "OwnersThatLookAlike"},
	{"owners are numbers", "OwnersThatLookAlike"},
	{"owners are cut at 64 bytes", "OwnersThatLookAlike"},
	{"owners are patterns", "OwnersThatLookAlike"},
	{"owners are compared by their CRC-32", "OwnersThatLookAlike"},

	{"numbers are keys without their zeros", "KeysThatLookAlike"},
	{"numbers are keys as floats", "KeysThatLookAlike"},
	{"numbers are keys of 64 bits", "KeysThatLookAlike"},
	{"accents of keys are dropped", "KeysThatLookAlike"},
	{"key .. is key .", "KeysThatLookAlike"},
	{"byte order mark of keys is dropped", "KeysThatLookAlike"},
	{"quotes around keys are dropped", "KeysThatLookAlike"},
	{"dot after keys is dropped", "KeysThatLookAlike"},
	{"digits of keys are those of any script", "KeysThatLookAlike"},

	{"HeldError names the first waiter", "HeldErrorNamesHolder"},
	{"HeldError names who came last", "HeldErrorNamesHolder"},
	{"HeldError has the first waiter's TTL", "HeldErrorNamesHolder"},
	{"HeldError is remembered for a while", "HeldErrorNamesHolder"},
}

// isOf reports whether a request by owner treats the lease or place of holder as its own. request is "attempt",
// "renewal", "batch" (a renewal in a batch), "release", "place" (a release of a place in the queue), or "break".
func (s *server) isOf(holder, owner, request string) bool {
	if holder == owner || holder == "" || !s.likeness {
		return holder == owner
	}
	cut := func(o string) string { return o[:min(len(o), 64)] }
	switch {
	case s.is(request + " knows its owner by a prefix"):
		return strings.HasPrefix(holder, owner)
	case s.is(request + " knows its owner by a suffix"):
		return strings.HasSuffix(holder, owner)
	case s.is(request + " looks for its owner in the holder's"):
		return strings.Contains(holder, owner)
	case request == "place" && s.is("leaving waiter is known by a prefix"):
		return strings.HasPrefix(holder, owner)
	case s.is("owners are alike in any case"):
		return strings.EqualFold(holder, owner)
	case s.is(astralOwners):
		return withoutAstral(holder) == withoutAstral(owner)
	case s.is("owners are trimmed of blanks"):
		return strings.TrimSpace(holder) == strings.TrimSpace(owner)
	case s.is("owners are numbers"):
		x, errX := strconv.Atoi(holder)
		y, errY := strconv.Atoi(owner)
		return errX == nil && errY == nil && x == y
	case s.is("owners are cut at 64 bytes"):
		return cut(holder) == cut(owner)
	case s.is("owners are compared by their CRC-32"):
		return crc32.ChecksumIEEE([]byte(holder)) == crc32.ChecksumIEEE([]byte(owner))
	case s.is("owners are patterns"):
		like, err := path.Match(owner, holder)
		return like && err == nil
	}
	return false
}

// likeName returns the name under which the server keeps key. With a bug, keys that look alike have the same name.
func (s *server) likeName(key string) string {
	switch s.bug {
	case "numbers are keys without their zeros":
		if n, ok := new(big.Int).SetString(key, 10); ok {
			return n.String()
		}
	case "numbers are keys as floats":
		if f, err := strconv.ParseFloat(key, 64); err == nil {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
	case "numbers are keys of 64 bits":
		if n, ok := new(big.Int).SetString(key, 10); ok && n.String() == key {
			return n.And(n, new(big.Int).SetUint64(1<<64-1)).String()
		}
	case "accents of keys are dropped":
		return strings.NewReplacer("é", "e", "ü", "u", "\u0301", "", "É", "E").Replace(key)
	case "key .. is key .":
		if key == ".." {
			return "."
		}
	case "byte order mark of keys is dropped":
		return strings.TrimPrefix(key, "\ufeff")
	case "quotes around keys are dropped":
		if n := len(key); n > 2 && key[0] == '"' && key[n-1] == '"' {
			return key[1 : n-1]
		}
	case "dot after keys is dropped":
		if n := len(key); n > 2 {
			return strings.TrimSuffix(key, ".")
		}
	case "digits of keys are those of any script":
		return strings.NewReplacer("\u0667", "7", "\uff17", "7", "\u2077", "7").Replace(key)
	}
	return key
}

// heldBy returns the holder that a refused attempt on e reports.
func (s *server) heldBy(e *entry, now time.Time) backend.Holder {
	h := e.holder(now)
	n := len(e.queue)
	switch {
	case s.is("HeldError is remembered for a while"):
		if now.Sub(e.refusedAt) < 300*time.Millisecond {
			return e.refusedHolder
		}
		e.refusedAt, e.refusedHolder = now, h
	case s.is("HeldError has the TTL of the grant after a renewal"):
		h.TTL = max(0, e.granted.Add(e.ttl).Sub(now))
	case s.is("HeldError has the whole TTL and not the rest"):
		h.TTL = e.lastTTL
	case s.is(heldErrorCounts):
		h.Waiters++
	case s.is(heldErrorCuts):
		h.Owner = h.Owner[:min(len(h.Owner), 64)]
	case n == 0:
	case s.is("HeldError names the first waiter"):
		h.Owner = e.queue[0].Owner
	case s.is("HeldError names who came last"):
		h.Owner = e.queue[n-1].Owner
	case s.is("HeldError has the first waiter's TTL"):
		h.TTL = e.queue[0].TTL
	}
	return h
}
