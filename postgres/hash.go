package postgres

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
)

// A hash is the number of a key's advisory lock: the first 64 bits of the SHA-256 of namespace and key.
type hash int64

// namespace keeps keys apart from other advisory locks.
const namespace = "anylock"

// hashOf hashes the namespace and the key. The namespace's length comes first, so that different pairs of namespace and
// key never give the same text.
func hashOf(key string) hash {
	text := make([]byte, 0, 8+len(namespace)+len(key))
	text = binary.BigEndian.AppendUint64(text, uint64(len(namespace)))
	text = append(append(text, namespace...), key...)
	sum := sha256.Sum256(text)
	return hash(binary.BigEndian.Uint64(sum[:]))
}

// name returns the hash as 11 characters of base64.
func (h hash) name() string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(h)))
}

// text returns the hash as a query parameter.
func (h hash) text() string { return strconv.FormatInt(int64(h), 10) }
