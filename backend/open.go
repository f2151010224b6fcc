package backend

import (
	"context"
	"time"
)

// openGrace is how much later than its context an open may return. Most stores return by then with the last error of
// the server.
const openGrace = 50 * time.Millisecond

type openFunc = func(ctx context.Context, rawURL string) (Backend, error)

// openWithin returns open, made to return when its context ends, whatever a client library waits for. A backend that
// is ready later is closed.
func openWithin(open openFunc) openFunc {
	type result struct {
		b   Backend
		err error
	}
	return func(ctx context.Context, rawURL string) (Backend, error) {
		if ctx.Done() == nil {
			return open(ctx, rawURL)
		}
		opened := make(chan result, 1)
		go func() {
			b, err := open(ctx, rawURL)
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
		return nil, ContextError(ctx, nil)
	}
}
