package specimens

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// Poll calls try until the key is free, for twins whose waiters poll. See [kit.Waiter].
func Poll(
	ctx context.Context, pause kit.Pause, patience time.Duration, try func(ctx context.Context) (backend.Lease, error),
) (backend.Lease, error) {
	w := kit.Waiter{Try: try, Pause: pause, Patience: patience}
	return w.Wait(ctx)
}
