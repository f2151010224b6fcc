package exchange

import (
	"context"
	"time"

	"github.com/anylock/lock/internal/calls"
)

// A Usage counts the calls of a store, so that its Close can wait for them.
type Usage struct {
	Calls   calls.Calls
	Closing chan struct{} // closed when Close begins
}

// Begin counts a call in, unless it is invalid, its context has ended or Close has begun. The caller leaves by calls.End.
func (u *Usage) Begin(ctx context.Context, invalid error) error {
	return u.Calls.Enter(ctx, u.Closing, invalid)
}

func (u *Usage) IsClosing() bool {
	select {
	case <-u.Closing:
		return true
	default:
		return false
	}
}

// CloseGrace is how long Close waits for requests under way, such as waiters leaving their queues.
const CloseGrace = time.Second
