package conformance_test

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/conformance"
	_ "github.com/anylock/lock/memory"
)

// TestMemory runs the suite on a store that is known to be correct. The store has a name, so that it must outlive its
// last client.
func TestMemory(t *testing.T) {
	t.Parallel()
	conformance.RunInBubble(t, func(*testing.T) conformance.Harness {
		url := "memory://" + rand.Text() // a new store, because no other bubble may use the store of this one
		return conformance.Harness{
			Open: func(ctx context.Context) (backend.Backend, error) {
				b, _, err := driver.Open(ctx, url)
				return b, err
			},
		}
	})
}

// TestMemoryNamed runs the check that closes all clients on a store that exists only while it has a client or a lease.
func TestMemoryNamed(t *testing.T) {
	t.Parallel()
	name := "memory://" + rand.Text()
	if err := conformance.InBubble(t, func(t *testing.T) {
		h := conformance.Harness{Open: func(ctx context.Context) (backend.Backend, error) {
			b, _, err := driver.Open(ctx, name)
			return b, err
		}}
		passes(t, h, conformance.Options{Run: only("TokensOutliveClients")})
	}); err != nil {
		t.Error(err)
	}
}
