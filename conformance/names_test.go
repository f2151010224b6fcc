package conformance_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"net/url"
	"path"
	"strings"

	"github.com/anylock/lock/backend"
)

// name returns the name under which the server keeps key.
func (s *server) name(key string) string {
	switch s.bug {
	case "keys are folded to lower case":
		return strings.ToLower(key)
	case "keys are cut at 250 bytes":
		return key[:min(len(key), 250)]
	case "keys are cut at 1023 bytes":
		return key[:min(len(key), backend.MaxKeyLen-1)]
	case "keys end at NUL":
		key, _, _ = strings.Cut(key, "\x00")
		return key
	case "keys are trimmed of blanks":
		return strings.TrimSpace(key)
	case "keys are made valid UTF-8":
		return strings.ToValidUTF8(key, "\ufffd")
	case "keys are put into a normal form":
		return strings.NewReplacer("e\u0301", "é", "A\u030a", "Å", "\u212b", "Å").Replace(key)
	case "keys are cleaned as paths":
		return path.Clean(key)
	case "keys are their hash tag":
		if _, tag, ok := strings.Cut(key, "{"); ok {
			if tag, _, ok = strings.Cut(tag, "}"); ok && tag != "" {
				return tag
			}
		}
	case "keys are their CRC-32":
		return fmt.Sprint(crc32.ChecksumIEEE([]byte(key)))
	case "keys are their FNV-1a of 64 bits, cut to 32":
		h := fnv.New64a()
		_, _ = h.Write([]byte(key))
		return fmt.Sprint(uint32(h.Sum64()))
	case "keys are the first 4 bytes of their SHA-256":
		sum := sha256.Sum256([]byte(key))
		return string(sum[:4])
	case "keys are 16 bits of a hash":
		sum := sha256.Sum256([]byte("secret" + key))
		return string(sum[:2])
	case "long keys are their SHA-256":
		if len(key) > 250 {
			sum := sha256.Sum256([]byte(key))
			return hex.EncodeToString(sum[:])
		}
	case "keys are unescaped":
		if k, err := url.QueryUnescape(key); err == nil {
			return k
		}
	case "odd keys are sent in base64":
		if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return base64.StdEncoding.EncodeToString([]byte(key))
		}
	case "key:queue is a key's own":
		return strings.TrimSuffix(key, ":queue")
	case "parts of keys are joined by one slash":
		return strings.ReplaceAll(key, "//", "/")
	case "keys are cut at 1000 bytes":
		return key[:min(len(key), 1000)]
	case astralKeys:
		return withoutAstral(key)
	case endsOfKeys:
		return endsOf(key)
	case "keys share one lock":
		return "lock"
	case "keys share their last byte's lock":
		return key[:len(key)-1] + string([]byte{key[len(key)-1] &^ 0x80})
	}
	if s.likeness {
		return s.likeName(key)
	}
	return s.hashedName(key)
}
