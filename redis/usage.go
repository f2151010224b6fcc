package redis

import (
	"context"
	"time"

	"github.com/anylock/lock/internal/calls"
)

// A usage counts the calls of a Backend or a Redlock, so that its Close can wait for them.
type usage struct {
	calls   calls.Calls
	closing chan struct{} // closed when Close begins
}

// begin counts a call in, unless it is invalid, its context has ended or Close has begun. The caller leaves by calls.End.
func (u *usage) begin(ctx context.Context, invalid error) error {
	return u.calls.Enter(ctx, u.closing, invalid)
}

func (u *usage) isClosing() bool {
	select {
	case <-u.closing:
		return true
	default:
		return false
	}
}

// closeGrace is how long Close waits for requests under way, such as waiters leaving their queues.
const closeGrace = time.Second
