package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/anylock/lock/backend/kit"
)

// Shutdown closes the Locker after its holders have released their leases. It grants nothing new, ends waiting Acquires with
// ErrClosed, and waits until no lease is held or being released, or ctx ends. Then it closes the Locker in any case, like
// Close. Until then, held leases are renewed and may be re-entered.
//
// nil means that every lease was released or lost before. The context's error means that some were still held; they have
// ended for their holders as described at Close. A second call waits like the first; once the Locker is closed, it
// returns nil.
func (l *Locker) Shutdown(ctx context.Context) error {
	if err := l.unopened(); err != nil {
		return l.error("shutdown", "", err)
	}
	l.mu.Lock()
	closed := isClosed(l.done)
	l.stopLocked()
	l.mu.Unlock()
	if closed {
		return nil
	}
	var left error
	select {
	case <-l.drained:
	case <-l.done:
	case <-ctx.Done():
		l.mu.Lock()
		n := l.busyLocked()
		l.mu.Unlock()
		left = l.error("shutdown", "", fmt.Errorf("%w: %d keys were still held", kit.ContextError(ctx, nil), n))
	}
	return errors.Join(left, l.Close())
}

// stopLocked lets nobody in any more, and ends what waits.
func (l *Locker) stopLocked() {
	if isClosed(l.stopping) {
		return
	}
	close(l.stopping)
	for _, g := range l.gates {
		if g.endWait != nil {
			g.endWait()
		}
	}
	l.drainLocked()
}

// drainLocked tells when the last one has left.
func (l *Locker) drainLocked() {
	if isClosed(l.stopping) && l.busyLocked() == 0 && !isClosed(l.drained) {
		close(l.drained)
	}
}

// busyLocked counts the keys that somebody holds or asks for.
func (l *Locker) busyLocked() int {
	n := len(l.gates) + l.resumed
	if l.idle != nil {
		n--
	}
	return n
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// waitAt is the context of a wait at the store for g's key, which Shutdown ends too.
func (l *Locker) waitAt(ctx context.Context, g *gate) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	g.endWait = cancel
	if isClosed(l.stopping) {
		cancel()
	}
	return ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		g.endWait = nil
		cancel()
	}
}

// closedOr is err, or ErrClosed where Shutdown has ended a wait that ended with err.
func (l *Locker) closedOr(ctx context.Context, err error) error {
	if kit.IsContextError(err) && !kit.Ended(ctx) && isClosed(l.stopping) {
		return ErrClosed
	}
	return err
}

// Ping makes one cheap read request to the store, for readiness probes. nil means that the store answers and that NotReady is nil.
// Ping takes no lease, and does not check whether one could be written.
func (l *Locker) Ping(ctx context.Context) error {
	if err := l.NotReady(); err != nil {
		return err
	}
	_, err := l.backend.Inspect(ctx, l.defaults.prefix+pingKey)
	return l.error("ping", "", err)
}

// pingKey is a key that Ping looks at, and nobody takes.
const pingKey = "anylock-ping"
