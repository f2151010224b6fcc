package conformance

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"hash/fnv"
)

// A namedHash is a hash of 32 bits that a store might use to distinguish keys.
type namedHash struct {
	name string
	sum  func(key []byte) uint32 // not safe for concurrent use
}

// hashes returns the hashes that a store is likely to use: a checksum, a fast hash, and longer hashes truncated at
// either end.
func hashes() []namedHash {
	short, long := fnv.New32a(), fnv.New64a()
	return []namedHash{
		{"CRC-32 (IEEE)", crc32.ChecksumIEEE},
		{"FNV-1a of 32 bits", func(key []byte) uint32 {
			short.Reset()
			short.Write(key)
			return short.Sum32()
		}},
		{"the last 32 bits of FNV-1a of 64 bits", func(key []byte) uint32 {
			long.Reset()
			long.Write(key)
			return uint32(long.Sum64())
		}},
		{"the first 32 bits of SHA-256", func(key []byte) uint32 {
			sum := sha256.Sum256(key)
			return binary.BigEndian.Uint32(sum[:])
		}},
	}
}
