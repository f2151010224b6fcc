package driver

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// openGrace is how long openWithin still waits for Driver.Open after ctx has ended. Most stores return within that
// time, with the last error of the server.
const openGrace = 50 * time.Millisecond

// openWithin calls d.Open. It returns when ctx ends, even if a client library keeps waiting. If d.Open returns a
// backend later, openWithin closes it.
func (d Driver) openWithin(ctx context.Context, u URL) (backend.Backend, error) {
	var b backend.Backend
	var err error
	opened := make(chan struct{}) // closed when b and err are set
	go func() {
		b, err = d.Open(ctx, u)
		close(opened)
	}()
	select {
	case <-opened:
		return b, err
	case <-ctx.Done():
	}
	select {
	case <-opened:
		return b, err
	case <-time.After(openGrace):
	}
	go func() {
		<-opened
		if err == nil {
			_ = b.Close()
		}
	}()
	return nil, kit.ContextError(ctx, nil)
}
