package conformance_test

import (
	"path"
	"strings"

	"github.com/anylock/lock/backend"
)

// name is the name under which the server keeps key.
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
	case "keys share one lock":
		return "lock"
	case "keys share their last byte's lock":
		return key[:len(key)-1] + string([]byte{key[len(key)-1] &^ 0x80})
	}
	return key
}
