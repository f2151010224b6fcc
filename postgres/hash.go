package postgres

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
)

// A hash is what the server knows a key by: the first 64 bits of its SHA-256.
type hash int64

// namespace keeps keys apart from other advisory locks.
const namespace = "anylock"

// hashOf hashes the namespace and key. The namespace's length goes first, so that no other namespace and key are the
// same text.
func hashOf(key string) hash {
	text := make([]byte, 0, 8+len(namespace)+len(key))
	text = binary.BigEndian.AppendUint64(text, uint64(len(namespace)))
	text = append(append(text, namespace...), key...)
	sum := sha256.Sum256(text)
	return hash(binary.BigEndian.Uint64(sum[:]))
}

// name is a hash in 11 characters.
func (h hash) name() string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(h)))
}

// text is a hash as a parameter of a query.
func (h hash) text() string { return strconv.FormatInt(int64(h), 10) }
