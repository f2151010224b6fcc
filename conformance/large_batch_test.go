package conformance_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/conformance"
)

// A distant is a client of a correct store that is far away.
type distant struct{ *client }

func (c distant) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	c.travels()
	return c.client.Acquire(ctx, r)
}

func (c distant) Inspect(ctx context.Context, key string) (backend.Holder, error) {
	c.travels()
	return c.client.Inspect(ctx, key)
}

func (c distant) travels() {
	const there = 300 * time.Millisecond // the round trip
	time.Sleep(there)                    // sleeps: the request is under way
}

// In a distant store, the first of a thousand leases is granted long before the last. LargeBatchRenewsEach allows for
// that.
func TestLargeBatchOfDistantStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("")
		defer close(s.stop)
		open := func(context.Context) (backend.Backend, error) { return distant{newClient(s)}, nil }
		passes(t, conformance.Harness{Open: open}, conformance.Options{Run: only("LargeBatchRenewsEach")})
	})
}
