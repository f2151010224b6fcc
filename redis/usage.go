package redis

import (
	"context"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/calls"
)

// A usage counts the calls of a Backend or a Redlock, so that its Close can wait for them.
type usage struct {
	calls   calls.Calls
	closing chan struct{} // closed when Close begins
}

// begin counts a call in, unless it is invalid, its context has ended or Close has begun. The caller leaves by calls.End.
func (u *usage) begin(ctx context.Context, invalid error) error {
	if invalid != nil {
		return invalid
	}
	if err := backend.ContextError(ctx, nil); err != nil {
		return err
	}
	if !u.calls.Begin() {
		return backend.ErrClosed
	}
	if u.isClosing() {
		u.calls.End()
		return backend.ErrClosed
	}
	return nil
}

func (u *usage) isClosing() bool {
	select {
	case <-u.closing:
		return true
	default:
		return false
	}
}
