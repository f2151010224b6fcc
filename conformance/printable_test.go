package conformance_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/memory"
)

// Control characters in the output of a check are escaped, because they could move the cursor of a terminal.
func TestHostileOutput(t *testing.T) {
	t.Parallel()
	const hostile = "a\x1b[2J\r\u202eb"
	name := conformance.Checks()[1].Name
	store := memory.NewStore()
	h := conformance.Harness{
		Open: func(context.Context) (backend.Backend, error) { return store.Client(), nil },
		Skip: map[string]string{name: hostile},
	}
	results, err := conformance.Execute(t.Context(), h, conformance.Options{Run: regexp.MustCompile("^" + name + "$")})
	if err != nil || len(results) != 1 {
		t.Fatal(results, err)
	}
	if got := results[0].Output; strings.ContainsAny(got, "\x1b\r\u202e") || !strings.Contains(got, `a\x1b[2J\r\u202eb`) {
		t.Errorf("output %q", got)
	}
}
