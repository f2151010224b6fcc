package conformance

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"hash/adler32"
	"hash/crc32"
	"hash/fnv"
	"math/bits"
)

// A namedHash is a hash of 32 bits that a store might use to distinguish keys.
type namedHash struct {
	name string
	sum  func(key []byte) uint32 // not safe for concurrent use
	// two ends that make keys collide, whatever the hash's width and the keys' beginning; empty if none are known
	ends [2]string
}

// hashes returns the hashes that a store is likely to use: checksums, fast hashes, and longer hashes truncated at
// either end.
func hashes() []namedHash {
	short, shortOld, long := fnv.New32a(), fnv.New32(), fnv.New64a()
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	sum64 := func(key []byte) uint64 {
		long.Reset()
		long.Write(key)
		return long.Sum64()
	}
	return []namedHash{
		{name: "CRC-32 (IEEE)", sum: crc32.ChecksumIEEE},
		{name: "CRC-32C (Castagnoli)", sum: func(key []byte) uint32 { return crc32.Checksum(key, castagnoli) }},
		{name: "Adler-32", sum: adler32.Checksum},
		{name: "FNV-1a of 32 bits", sum: func(key []byte) uint32 {
			short.Reset()
			short.Write(key)
			return short.Sum32()
		}},
		{name: "FNV-1 of 32 bits", sum: func(key []byte) uint32 {
			shortOld.Reset()
			shortOld.Write(key)
			return shortOld.Sum32()
		}},
		{name: "the last 32 bits of FNV-1a of 64 bits", sum: func(key []byte) uint32 { return uint32(sum64(key)) }},
		{name: "the first 32 bits of FNV-1a of 64 bits", sum: func(key []byte) uint32 { return uint32(sum64(key) >> 32) }},
		{name: "the first 32 bits of MD5", sum: func(key []byte) uint32 {
			sum := md5.Sum(key)
			return binary.BigEndian.Uint32(sum[:])
		}},
		{name: "the first 32 bits of SHA-1", sum: func(key []byte) uint32 {
			sum := sha1.Sum(key)
			return binary.BigEndian.Uint32(sum[:])
		}},
		{name: "the first 32 bits of SHA-256", sum: func(key []byte) uint32 {
			sum := sha256.Sum256(key)
			return binary.BigEndian.Uint32(sum[:])
		}},
		{name: "MurmurHash3 of 32 bits", sum: murmur3},
		{name: "polynomial of 31", sum: func(key []byte) uint32 { return polynomial(31, 0, key) },
			ends: [2]string{"Aa", "BB"}},
		{name: "polynomial of 33 (djb2)", sum: func(key []byte) uint32 { return polynomial(33, 5381, key) },
			ends: [2]string{"Aa", "B@"}},
	}
}

// polynomial is the hash of Java's strings, if base is 31 and begin is 0.
func polynomial(base, begin uint32, key []byte) uint32 {
	h := begin
	for _, c := range key {
		h = base*h + uint32(c)
	}
	return h
}

// murmur3 is MurmurHash3_x86_32 with seed 0.
func murmur3(key []byte) uint32 {
	mix := func(k uint32) uint32 { return bits.RotateLeft32(k*0xcc9e2d51, 15) * 0x1b873593 }
	h, n := uint32(0), uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		h ^= mix(binary.LittleEndian.Uint32(key))
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	rest := uint32(0)
	for i := len(key) - 1; i >= 0; i-- {
		rest = rest<<8 | uint32(key[i])
	}
	h ^= mix(rest) ^ n
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}
