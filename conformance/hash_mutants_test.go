package conformance_test

import (
	"crypto/md5"
	"crypto/sha1"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"hash/fnv"

	"github.com/anylock/lock/conformance"
)

// hashMutants are stores that keep a key under its hash.
var hashMutants = []mutant{
	{"keys are their CRC-32C", "KeysDoNotCollide"},
	{"keys are their Adler-32", "KeysDoNotCollide"},
	{"keys are their FNV-1 of 32 bits", "KeysDoNotCollide"},
	{"keys are the first half of their FNV-1a of 64 bits", "KeysDoNotCollide"},
	{"keys are the first 4 bytes of their MD5", "KeysDoNotCollide"},
	{"keys are the first 4 bytes of their SHA-1", "KeysDoNotCollide"},
	{"keys are their MurmurHash3", "KeysDoNotCollide"},
	{"keys are their polynomial of 31 in 64 bits", "KeysDoNotCollide"},
	{"keys are their polynomial of 33 in 64 bits", "KeysDoNotCollide"},
}

// hashedName returns the hash under which the server keeps key, or key if it has none of hashMutants.
func (s *server) hashedName(key string) string {
	switch b := []byte(key); s.bug {
	case "keys are their CRC-32C":
		return fmt.Sprint(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	case "keys are their Adler-32":
		return fmt.Sprint(adler32.Checksum(b))
	case "keys are their FNV-1 of 32 bits":
		h := fnv.New32()
		_, _ = h.Write(b)
		return fmt.Sprint(h.Sum32())
	case "keys are the first half of their FNV-1a of 64 bits":
		h := fnv.New64a()
		_, _ = h.Write(b)
		return fmt.Sprint(h.Sum64() >> 32)
	case "keys are the first 4 bytes of their MD5":
		sum := md5.Sum(b)
		return string(sum[:4])
	case "keys are the first 4 bytes of their SHA-1":
		sum := sha1.Sum(b)
		return string(sum[:4])
	case "keys are their MurmurHash3":
		return fmt.Sprint(conformance.Murmur3(b))
	case "keys are their polynomial of 31 in 64 bits":
		return fmt.Sprint(polynomialOf(31, b))
	case "keys are their polynomial of 33 in 64 bits":
		return fmt.Sprint(polynomialOf(33, b))
	}
	return key
}

// polynomialOf returns a hash of 64 bits, as of a store that keeps locks under numbers.
func polynomialOf(base uint64, key []byte) (h uint64) {
	for _, c := range key {
		h = base*h + uint64(c)
	}
	return h
}
