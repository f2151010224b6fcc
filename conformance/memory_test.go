package conformance_test

import (
	"context"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/memory"
)

// TestMemory runs the suite on a store that is known to be correct.
func TestMemory(t *testing.T) {
	t.Parallel()
	conformance.RunInBubble(t, func(t *testing.T) conformance.Harness {
		store := memory.NewStore()
		return conformance.Harness{
			Open: func(context.Context) (backend.Backend, error) { return store.Client(), nil },
		}
	})
}
