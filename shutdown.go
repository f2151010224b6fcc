package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/anylock/lock/backend/kit"
)

// Shutdown closes the Locker after its holders have released their leases. It grants nothing new, ends waiting Acquires
// with ErrClosed, and waits until no lease is held or being released, or ctx ends. Then it closes the Locker in any
// case, like Close. Until then, held leases are renewed and may be re-entered.
//
// nil means that every lease was released or lost before. The context's error means that some leases were still held;
// they have ended for their holders as described at Close. A second call waits like the first; once the Locker is
// closed, it returns nil.
func (l *Locker) Shutdown(ctx context.Context) error {
	if err := l.checkOpened(); err != nil {
		return l.error("shutdown", "", err)
	}
	l.stopGrants()
	var stillHeld error
	select {
	case <-l.drained:
	case <-ctx.Done():
		l.mu.Lock()
		if !isClosed(l.drained) { // otherwise the last release or Close came first
			stillHeld = fmt.Errorf("%w: %d keys were still held", kit.ContextError(ctx, nil), l.active)
		}
		l.mu.Unlock()
	}
	return errors.Join(l.error("shutdown", "", stillHeld), l.Close())
}

// Close ends waiting Acquires with ErrClosed, stops renewal, and closes the store. Release leases first. A lease that
// is still held ends for its holder at once (its Context ends with ErrClosed as the cause), but its key becomes free
// only when its TTL runs out, because the holder may not have stopped yet. A second Close returns nil.
func (l *Locker) Close() error {
	if err := l.checkOpened(); err != nil {
		return l.error("close", "", err)
	}
	if l.closed.Swap(true) {
		return nil
	}
	l.stopGrants()
	l.renewals.close()
	return l.error("close", "", l.backend.Close())
}
