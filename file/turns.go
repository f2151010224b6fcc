package file

import (
	"context"

	"github.com/anylock/lock/backend/kit"
)

// A turn lets one goroutine of this process at a time lock a bucket's file. The others wait for it in order of arrival,
// instead of trying again and again: a file lock wakes nobody. It has room for one value, which whose turn it is puts
// in.
type turn chan struct{}

// acquire waits until ctx ends. Its error is that of ctx.
func (t turn) acquire(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default: // to ask ctx for its end costs more than the rest
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return kit.ContextError(ctx, nil)
	}
}

func (t turn) release() { <-t }
