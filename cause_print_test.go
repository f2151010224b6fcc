package lock

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// An Error is one line of valid UTF-8, even if a server's message or joined errors have several lines.
func TestErrorIsOneLine(t *testing.T) {
	for _, cause := range []error{errors.New("ERR a\r\nb\x1b[2J\xff"), errors.Join(ErrLost, errors.New("second"))} {
		err := &Error{Op: "renew", Key: "k\n", Backend: "x", Err: cause}
		if text := err.Error(); strings.ContainsAny(text, "\r\n\x1b") || !utf8.ValidString(text) || !errors.Is(err, cause) {
			t.Errorf("%q", text)
		}
	}
}
