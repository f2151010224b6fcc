package fence_test

import (
	"strings"
	"testing"

	"github.com/anylock/lock/fence"
)

// A resource's name cannot forge a line of a log.
func TestStaleErrorQuotesResource(t *testing.T) {
	err := (&fence.StaleError{Resource: "a\nb\x1b[2J", Token: 1, Seen: 2}).Error()
	if strings.ContainsAny(err, "\n\x1b") || !strings.HasPrefix(err, `"a\nb\x1b[2J": `) {
		t.Errorf("%q", err)
	}
}
