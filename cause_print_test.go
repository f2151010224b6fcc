package lock

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// What a server says, and errors that are joined, stay in one line of a log.
func TestErrorIsOneLine(t *testing.T) {
	for _, cause := range []error{errors.New("ERR a\r\nb\x1b[2J\xff"), errors.Join(ErrLost, errors.New("second"))} {
		err := &Error{Op: "renew", Key: "k\n", Backend: "x", Err: cause}
		if text := err.Error(); strings.ContainsAny(text, "\r\n\x1b") || !utf8.ValidString(text) || !errors.Is(err, cause) {
			t.Errorf("%q", text)
		}
	}
}
