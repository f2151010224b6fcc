package memory_test

import (
	"context"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
	"github.com/anylock/lock/memory"
)

func TestConformance(t *testing.T) {
	conformance.RunInBubble(t, func(t *testing.T) conformance.Harness {
		store := memory.NewStore()
		return conformance.Harness{
			Open:      func(context.Context) (backend.Backend, error) { return store.Client(), nil },
			Footprint: func() (int64, error) { return int64(store.Len()), nil },
		}
	})
}
