package lock

import (
	"context"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// leave lets the next waiter contend for the key, or closes the gate.
func (l *Locker) leave(g *gate) { l.leaveWith(g, nil) }

// leaveWith is leave after an attempt that failed with err, which may tell that the key is busy.
func (l *Locker) leaveWith(g *gate, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if busy := refusal(err); busy != nil {
		g.busy, g.busyAt = busy, time.Now()
	}
	g.inside.Store(nil)
	l.callNextLocked(g, nil)
}

// leaveFor leaves g for a private gate, which it returns. A lease with an owner of its own may end in another process,
// so its holder does not keep others from asking the store.
func (l *Locker) leaveFor(g *gate) *gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, private := l.private[g]; private {
		return g
	}
	alone := l.newPrivateLocked(g.key, g.shared)
	l.callNextLocked(g, nil)
	return alone
}

// newPrivateLocked returns a gate for one lease.
func (l *Locker) newPrivateLocked(key string, shared bool) *gate {
	g := &gate{key: key, shared: shared}
	l.private[g] = struct{}{}
	return g
}

// callNextLocked gives the next waiter its turn, or closes the gate.
func (l *Locker) callNextLocked(g *gate, handed *tenure) {
	if _, private := l.private[g]; private {
		delete(l.private, g)
		l.drainLocked()
		return
	}
	next := l.nextLocked(g)
	if next == nil {
		if l.idle != nil {
			delete(l.gates, l.idle.key)
		}
		l.idle = g
		l.drainLocked()
		return
	}
	g.waiters.Remove(g.waiters.Front())
	next.turn <- handed
}

// nextLocked is the waiter that is next at g, nil if there is none or nothing is granted any more.
func (l *Locker) nextLocked(g *gate) *waiter {
	if g.waiters == nil || g.waiters.Len() == 0 || isClosed(l.stopping) {
		return nil
	}
	return g.waiters.Front().Value.(*waiter)
}

// stopLocked lets nobody in any more, and ends what waits.
func (l *Locker) stopLocked() {
	if isClosed(l.stopping) {
		return
	}
	close(l.stopping)
	for _, g := range l.gates {
		g.endWaitLocked()
	}
	for g := range l.private {
		g.endWaitLocked()
	}
	l.drainLocked()
}

// endWaitLocked ends the wait at the store, if there is one.
func (g *gate) endWaitLocked() {
	if g.endWait != nil {
		g.endWait()
	}
}

// drainLocked reports when the last one has left.
func (l *Locker) drainLocked() {
	if isClosed(l.stopping) && l.busyLocked() == 0 && !isClosed(l.drained) {
		close(l.drained)
	}
}

// busyLocked counts the keys that somebody holds or asks for, and those of shared leases once for each lease.
func (l *Locker) busyLocked() int {
	n := len(l.gates) + len(l.private)
	if l.idle != nil {
		n--
	}
	return n
}

// waitAt is the context of a wait at the store for g's key, which Shutdown ends too. The caller calls endWaitAt.
func (l *Locker) waitAt(ctx context.Context, g *gate) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	g.endWait = cancel
	if isClosed(l.stopping) {
		cancel()
	}
	return ctx
}

// endWaitAt ends what waitAt began.
func (l *Locker) endWaitAt(g *gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.endWaitLocked()
	g.endWait = nil
}

// closedOr is err, or ErrClosed where Shutdown has ended a wait that ended with err.
func (l *Locker) closedOr(ctx context.Context, err error) error {
	if kit.IsContextError(err) && !kit.Ended(ctx) && isClosed(l.stopping) {
		return ErrClosed
	}
	return err
}
