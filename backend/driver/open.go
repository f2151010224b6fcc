package driver

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// openGrace is how long openWithin still waits for open after ctx has ended. Most stores return within that time, with
// the last error of the server.
const openGrace = 50 * time.Millisecond

// openWithin calls open. It returns when ctx ends, even if a client library keeps waiting. If open returns a backend
// later, openWithin closes it.
func openWithin(
	ctx context.Context, open func(context.Context, URL) (backend.Backend, error), u URL,
) (backend.Backend, error) {
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
	select {
	case r := <-opened:
		return r.b, r.err
	case <-time.After(openGrace):
	}
	go func() {
		if r := <-opened; r.err == nil {
			_ = r.b.Close()
		}
	}()
	return nil, kit.ContextError(ctx, nil)
}
