package postgres

import (
	"strings"
	"testing"
	"time"
)

func TestHash(t *testing.T) {
	t.Parallel()
	// The hash must never change, because clients of different versions must exclude each other.
	if h := hashOf("invoice/42"); h != 2908092060370696447 {
		t.Errorf("the hash of invoice/42 is %d", h)
	}
}

func TestLabel(t *testing.T) {
	t.Parallel()
	owners := []string{"o", "4f0c@web-3:4711", `name with blanks, */ /* -- ; and "quotes" {}/\%` + "\n'=é\xff",
		strings.Repeat("\x01", 255)}
	for _, owner := range owners {
		h := hashOf(owner)
		text := label(1500*time.Millisecond, labelEntry(h, owner))
		if len(text) > 1000 {
			t.Errorf("the label of one owner has %d bytes", len(text))
		}
		if strings.Count(text, "*/") != 1 || strings.Count(text, "/*") != 1 {
			t.Errorf("not one comment: %q", text)
		}
		got, timeout, ok := readLabel(text+" BEGIN", h)
		if got != owner || timeout != 1500*time.Millisecond || !ok {
			t.Errorf("%q was read as %q, %v, %v", owner, got, timeout, ok)
		}
		if _, _, ok := readLabel(text[:len(text)-2], h); ok {
			t.Error("a label that was cut was read")
		}
		if _, _, ok := readLabel(text, h+1); ok {
			t.Error("another key's owner was read")
		}
	}
	for _, query := range []string{"", "SELECT 1", "/*anylock1 ", "/*anylock1 x AAAAAAAAAAA=o*/", "/*anylock1 5*/"} {
		if owner, _, ok := readLabel(query, 0); ok {
			t.Errorf("%q was read as %q", query, owner)
		}
	}
}
