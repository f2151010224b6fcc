package driver

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// openGrace is how much later than its context an open may return. Most stores return by then with the last error of
// the server.
const openGrace = 50 * time.Millisecond

// openWithin calls open and returns when ctx ends, whatever a client library waits for. A backend that is ready later
// is closed.
func openWithin(
	ctx context.Context, open func(context.Context, URL) (backend.Backend, error), u URL,
) (backend.Backend, error) {
	if ctx.Done() == nil {
		return open(ctx, u)
	}
	type result struct {
		b   backend.Backend
		err error
	}
	opened := make(chan result, 1)
	go func() {
		b, err := open(ctx, u)
		opened <- result{b, err}
	}()
	select {
	case r := <-opened:
		return r.b, r.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(openGrace)
	defer grace.Stop()
	select {
	case r := <-opened:
		return r.b, r.err
	case <-grace.C:
	}
	go func() {
		if r := <-opened; r.err == nil {
			_ = r.b.Close()
		}
	}()
	return nil, kit.ContextError(ctx, nil)
}
