package conformance

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"hash/adler32"
	"hash/crc32"
	"hash/crc64"
	"math/bits"
)

// A namedHash is a hash of 32 bits by which stores have been seen to tell keys apart.
type namedHash struct {
	name string
	sum  func(key []byte) uint32
}

// hashes are those that applications, libraries and databases have at hand, and what is left when a longer one is cut.
func hashes() []namedHash {
	crc := func(poly uint32) func([]byte) uint32 {
		table := crc32.MakeTable(poly)
		return func(key []byte) uint32 { return crc32.Checksum(key, table) }
	}
	iso, ecma := crc64.MakeTable(crc64.ISO), crc64.MakeTable(crc64.ECMA)
	crc64 := func(table *crc64.Table) func([]byte) uint64 {
		return func(key []byte) uint64 { return crc64.Checksum(key, table) }
	}
	all := []namedHash{
		{"CRC-32 (IEEE)", crc(crc32.IEEE)}, {"CRC-32C (Castagnoli)", crc(crc32.Castagnoli)}, {"CRC-32K (Koopman)", crc(crc32.Koopman)},
		{"Adler-32", adler32.Checksum},
		{"FNV-1 of 32 bits", fnv1}, {"FNV-1a of 32 bits", fnv1a},
		{"djb2", times(5381, 33)}, {"djb2 with xor", djb2xor}, {"sdbm", times(0, 65599)},
		{"Java's String.hashCode", times(0, 31)}, {"BKDR", times(0, 131)},
		{"Jenkins' one at a time", oneAtATime}, {"MurmurHash2", murmur2(0)}, {"MurmurHash3", murmur3}, {"xxHash32", xxHash32},
		{"Postgres' hashtext", hashtext},
	}
	for _, h := range []struct {
		name string
		sum  func([]byte) uint64
	}{
		{"FNV-1 of 64 bits", fnv1of64}, {"FNV-1a of 64 bits", fnv1aOf64}, {"CRC-64 (ISO)", crc64(iso)}, {"CRC-64 (ECMA)", crc64(ecma)},
		{"MD5", func(key []byte) uint64 { s := md5.Sum(key); return ends(s[:]) }},
		{"SHA-1", func(key []byte) uint64 { s := sha1.Sum(key); return ends(s[:]) }},
		{"SHA-256", func(key []byte) uint64 { s := sha256.Sum256(key); return ends(s[:]) }},
	} {
		all = append(all,
			namedHash{"the first 32 bits of " + h.name, func(key []byte) uint32 { return uint32(h.sum(key) >> 32) }},
			namedHash{"the last 32 bits of " + h.name, func(key []byte) uint32 { return uint32(h.sum(key)) }},
		)
	}
	return append(all,
		namedHash{"FNV-1a of 64 bits, folded", func(key []byte) uint32 { s := fnv1aOf64(key); return uint32(s ^ s>>32) }})
}

// ends puts the first and the last four bytes of a digest together.
func ends(digest []byte) uint64 {
	return uint64(binary.BigEndian.Uint32(digest))<<32 | uint64(binary.BigEndian.Uint32(digest[len(digest)-4:]))
}

// Package hash/fnv makes a hash on the heap for each key; here are hundred thousands of them.

func fnv1(key []byte) uint32 {
	h := uint32(2166136261)
	for _, c := range key {
		h = h*16777619 ^ uint32(c)
	}
	return h
}

func fnv1a(key []byte) uint32 {
	h := uint32(2166136261)
	for _, c := range key {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}

func fnv1of64(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range key {
		h = h*1099511628211 ^ uint64(c)
	}
	return h
}

func fnv1aOf64(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range key {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// times is the hash that multiplies what it has by a factor, and adds the next byte.
func times(start, factor uint32) func([]byte) uint32 {
	return func(key []byte) uint32 {
		h := start
		for _, c := range key {
			h = h*factor + uint32(c)
		}
		return h
	}
}

func djb2xor(key []byte) uint32 {
	h := uint32(5381)
	for _, c := range key {
		h = h*33 ^ uint32(c)
	}
	return h
}

func oneAtATime(key []byte) uint32 {
	var h uint32
	for _, c := range key {
		h += uint32(c)
		h += h << 10
		h ^= h >> 6
	}
	h += h << 3
	h ^= h >> 11
	return h + h<<15
}

func murmur2(seed uint32) func([]byte) uint32 {
	const m = 0x5bd1e995
	return func(key []byte) uint32 {
		h := seed ^ uint32(len(key))
		for ; len(key) >= 4; key = key[4:] {
			k := binary.LittleEndian.Uint32(key) * m
			k ^= k >> 24
			h = h*m ^ k*m
		}
		if len(key) > 0 {
			h = (h ^ rest(key)) * m
		}
		h ^= h >> 13
		h *= m
		return h ^ h>>15
	}
}

func murmur3(key []byte) uint32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	n := uint32(len(key))
	var h uint32 // seed 0
	for ; len(key) >= 4; key = key[4:] {
		h ^= bits.RotateLeft32(binary.LittleEndian.Uint32(key)*c1, 15) * c2
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	h ^= bits.RotateLeft32(rest(key)*c1, 15) * c2
	h ^= n
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

// rest is up to three bytes as a number.
func rest(key []byte) (k uint32) {
	for i, c := range key {
		k |= uint32(c) << (8 * i)
	}
	return k
}

func xxHash32(key []byte) uint32 {
	const p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
	n := uint32(len(key))
	h := uint32(p5) // seed 0
	if len(key) >= 16 {
		first := uint32(p1)
		v := [4]uint32{first + p2, p2, 0, -first}
		for ; len(key) >= 16; key = key[16:] {
			for i := range v {
				v[i] = bits.RotateLeft32(v[i]+binary.LittleEndian.Uint32(key[4*i:])*p2, 13) * p1
			}
		}
		h = bits.RotateLeft32(v[0], 1) + bits.RotateLeft32(v[1], 7) + bits.RotateLeft32(v[2], 12) + bits.RotateLeft32(v[3], 18)
	}
	h += n
	for ; len(key) >= 4; key = key[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(key)*p3, 17) * p4
	}
	for _, c := range key {
		h = bits.RotateLeft32(h+uint32(c)*p5, 11) * p1
	}
	h = (h ^ h>>15) * p2
	h = (h ^ h>>13) * p3
	return h ^ h>>16
}

// hashtext is Jenkins' lookup3 as Postgres has it: what "pg_advisory_lock(hashtext(name))" locks.
func hashtext(key []byte) uint32 {
	a := 0x9e3779b9 + uint32(len(key)) + 3923095
	b, c := a, a
	for ; len(key) >= 12; key = key[12:] {
		a += binary.LittleEndian.Uint32(key)
		b += binary.LittleEndian.Uint32(key[4:])
		c += binary.LittleEndian.Uint32(key[8:])
		a, b, c = mix3(a, b, c)
	}
	var last [12]byte
	copy(last[:], key)
	a += binary.LittleEndian.Uint32(last[:])
	b += binary.LittleEndian.Uint32(last[4:])
	c += binary.LittleEndian.Uint32(last[8:]) << 8 // the lowest byte is the length's
	return final3(a, b, c)
}

func mix3(a, b, c uint32) (uint32, uint32, uint32) {
	a = a - c ^ bits.RotateLeft32(c, 4)
	c += b
	b = b - a ^ bits.RotateLeft32(a, 6)
	a += c
	c = c - b ^ bits.RotateLeft32(b, 8)
	b += a
	a = a - c ^ bits.RotateLeft32(c, 16)
	c += b
	b = b - a ^ bits.RotateLeft32(a, 19)
	a += c
	c = c - b ^ bits.RotateLeft32(b, 4)
	b += a
	return a, b, c
}

func final3(a, b, c uint32) uint32 {
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	return (c ^ b) - bits.RotateLeft32(b, 24)
}
