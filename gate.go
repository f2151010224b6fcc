package lock

import (
	"context"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// leave ends the caller's turn at g: the next waiter may contend for the key. If nobody waits, g becomes idle; a
// private gate is deleted.
func (l *Locker) leave(g *gate) { l.leaveWith(g, nil) }

// leaveWith is leave after an attempt that failed with err. If err reports a busy key, leaveWith records that for the
// waiters.
func (l *Locker) leaveWith(g *gate, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if busy := refusal(err); busy != nil {
		g.busy, g.busyAt = busy, time.Now()
	}
	g.inside.Store(nil)
	l.callNextLocked(g, nil)
}

// leaveFor leaves g and returns a private gate for the lease instead. The caller chose the owner of the lease, so
// another process may end it. Other goroutines therefore request the key from the store instead of waiting for the
// local holder.
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

// newPrivateLocked returns a private gate, for one lease.
func (l *Locker) newPrivateLocked(key string, shared bool) *gate {
	g := &gate{key: key, shared: shared}
	l.private[g] = struct{}{}
	return g
}

// callNextLocked gives the next waiter its turn, with the lease handed if that is not nil. If nobody waits, g becomes
// idle; a private gate is deleted.
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

// nextLocked returns the next waiter at g, nil if there is none or the Locker grants nothing new.
func (l *Locker) nextLocked(g *gate) *waiter {
	if g.waiters == nil || g.waiters.Len() == 0 || isClosed(l.stopping) {
		return nil
	}
	return g.waiters.Front().Value.(*waiter)
}

// stopLocked stops new grants and ends all waits.
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

// endWaitLocked ends the wait at the store for g's key, if there is one.
func (g *gate) endWaitLocked() {
	if g.endWait != nil {
		g.endWait()
	}
}

// drainLocked closes drained if the Locker is stopping and nobody holds or requests a key.
func (l *Locker) drainLocked() {
	if isClosed(l.stopping) && l.busyLocked() == 0 && !isClosed(l.drained) {
		close(l.drained)
	}
}

// busyLocked returns the number of keys that are held or requested. A key with shared leases counts once for each
// lease.
func (l *Locker) busyLocked() int {
	n := len(l.gates) + len(l.private)
	if l.idle != nil {
		n--
	}
	return n
}

// waitAt returns the context of a wait at the store for g's key, which also ends when Shutdown begins. The caller must
// call endWaitAt.
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

// endWaitAt ends the context that waitAt returned.
func (l *Locker) endWaitAt(g *gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.endWaitLocked()
	g.endWait = nil
}

// closedOr returns ErrClosed if Shutdown ended the wait that returned err, otherwise err.
func (l *Locker) closedOr(ctx context.Context, err error) error {
	if kit.IsContextError(err) && !kit.Ended(ctx) && isClosed(l.stopping) {
		return ErrClosed
	}
	return err
}
