package kit

import (
	"crypto/sha256"
	"encoding/base32"
	"net/url"
	"strings"
)

// An Encoding turns keys into names for a store that does not accept arbitrary bytes or lengths. It is injective:
// different keys get different names (names that are cut short rely on SHA-256 having no collisions).
//
// Letters, digits, '-', '_' and Extra stand for themselves; any other byte becomes '%' and two hex digits. A name
// longer than Max is cut, and ends with a hash of the whole key after an escape sequence that no other name has.
type Encoding struct {
	Max   int    // the longest name in bytes, at least 64; 0 means no limit
	Extra string // more bytes that stand for themselves; '%' never does
}

const hexDigits = "0123456789abcdef"

var hashAlphabet = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// Encode returns the name of key.
func (e Encoding) Encode(key string) string {
	var b strings.Builder
	b.Grow(len(key))
	for i := range len(key) {
		if c := key[i]; e.plain(c) && c != '%' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	name := b.String()
	if e.Max <= 0 || len(name) <= e.Max {
		return name
	}
	const hashed = 2 + 52 // %, =, 256 bits in base 32
	cut := e.Max - hashed - 2
	for name[cut-1] == '%' || name[cut-2] == '%' { // never inside an escape sequence
		cut++
	}
	sum := sha256.Sum256([]byte(key))
	return name[:cut] + "%=" + hashAlphabet.EncodeToString(sum[:])
}

func (e Encoding) plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' ||
		strings.IndexByte(e.Extra, c) >= 0
}

// Decode returns the key whose name is name. ok is false for a name that Encode does not produce, and for a name that
// Encode has cut short.
func (e Encoding) Decode(name string) (key string, ok bool) {
	key, err := url.PathUnescape(name)
	if err != nil || e.Encode(key) != name {
		return "", false
	}
	return key, true
}
