package file

import (
	"context"

	"github.com/anylock/lock/backend/kit"
)

// A turn lets one goroutine of this process at a time lock a bucket's file. The others wait for it in order of arrival
// instead of polling, because a file lock wakes nobody. The channel has room for one value, which the goroutine that
// has the turn has sent.
type turn chan struct{}

// acquire waits for the turn. If ctx ends first, acquire returns ctx's error.
func (t turn) acquire(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default: // a select with ctx.Done costs more than all the rest
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return kit.ContextError(ctx, nil)
	}
}

func (t turn) release() { <-t }
