package lock

import (
	"cmp"
	"context"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// enter passes the gate of key, or queues at it. The tenure has a live lease that the last holder handed on; it is nil
// if no lease was handed on. busy describes the local holder at the time of the call, or is a later report of the store
// that the key is busy; otherwise it is nil. If err is nil, the caller must leave the gate.
func (l *Locker) enter(
	ctx context.Context, key string, terms *settings, wait bool,
) (_ *gate, _ *tenure, busy, err error) {
	if terms.shared {
		g, err := l.enterPrivate(key, true)
		return g, nil, nil, err
	}
	l.mu.Lock()
	if isClosed(l.stopping) {
		l.mu.Unlock()
		return nil, nil, nil, ErrClosed
	}
	g := l.gates[key]
	if g == nil || g == l.idle {
		if g == nil {
			g = &gate{key: key}
			l.gates[key] = g
		} else {
			l.idle = nil
		}
		l.active++
		l.mu.Unlock()
		return g, nil, nil, nil
	}
	busy = g.heldLocked()
	if !wait {
		l.mu.Unlock()
		if busy == nil { // another goroutine of this process is requesting the key
			busy = l.inspectBusy(ctx, key)
		}
		return nil, nil, nil, busy
	}
	w := &waiter{turn: make(chan *tenure, 1), terms: terms, busy: busy}
	w.place = g.waiters.PushBack(w)
	l.mu.Unlock()
	if handed, ok := l.awaitTurn(ctx, g, w, busy == nil); ok {
		return g, handed, w.busy, nil
	}
	return nil, nil, nil, l.leaveQueue(ctx, g, w)
}

// awaitTurn waits for w's turn at g. handed is a live lease, if one is handed on. ok is false if ctx or the Locker has
// ended first. If checks is set and ctx has a deadline, awaitTurn checks meanwhile whether the key is busy: after half
// of the time until the deadline, then after half of the rest, and so on.
func (l *Locker) awaitTurn(ctx context.Context, g *gate, w *waiter, checks bool) (handed *tenure, ok bool) {
	var check <-chan time.Time
	end, limited := ctx.Deadline()
	if limited && checks {
		check = time.After(time.Until(end) / 2)
	}
	for {
		select {
		case handed := <-w.turn:
			return handed, true
		case <-check:
			if left := time.Until(end); l.checkBusy(ctx, g, w) && left > time.Millisecond {
				check = time.After(left / 2)
			}
		case <-ctx.Done():
			return nil, false
		case <-l.stopping:
			return nil, false
		}
	}
}

// leaveQueue removes w, whose wait ended without a turn, from the queue. It returns the error for the caller.
func (l *Locker) leaveQueue(ctx context.Context, g *gate, w *waiter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case handed := <-w.turn: // the turn came at the same moment
		go l.passOn(g, handed) // the caller does not wait for a release; Close of the store does
	default:
		g.waiters.Remove(w.place)
	}
	return cmp.Or(kit.ContextError(ctx, cmp.Or(w.busy, g.heldLocked())), ErrClosed)
}

// enterPrivate returns a private gate, for one lease. Shutdown waits until the caller leaves the gate.
func (l *Locker) enterPrivate(key string, shared bool) (*gate, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isClosed(l.stopping) {
		return nil, ErrClosed
	}
	l.active++
	return &gate{key: key, shared: shared, private: true}, nil
}

// inspectBusy inspects a key that another goroutine of this process is requesting. If the store answers, the error is
// that of a busy key: even a free key counts as busy, because the other goroutine is ahead.
func (l *Locker) inspectBusy(ctx context.Context, key string) error {
	h, err := l.backend.Inspect(ctx, key)
	switch {
	case err != nil:
		return err
	case h.Held():
		return &HeldError{Holder: l.withToken(h)}
	}
	return ErrHeld
}

// checkBusy inspects g's key in the background, unless an inspection is under way. It reports whether w may need
// another one.
func (l *Locker) checkBusy(ctx context.Context, g *gate, w *waiter) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.busy != nil || g.checking {
		return w.busy == nil
	}
	g.checking = true
	go func() { // ends with ctx, or when the store answers
		err := l.inspectBusy(ctx, g.key)
		l.mu.Lock()
		defer l.mu.Unlock()
		g.checking = false
		g.reportLocked(err)
	}()
	return true
}

// passOn passes on a turn that its receiver does not use. If handed is not nil, passOn gives that lease up.
func (l *Locker) passOn(g *gate, handed *tenure) {
	if handed == nil {
		l.leave(g, nil)
		return
	}
	_ = handed.giveUp(context.Background(), 0) // if the release fails, the TTL ends the lease
}

// heldLocked returns the error of an attempt that must not wait behind a holder of this process, nil if there is no
// such holder.
func (g *gate) heldLocked() error {
	t := g.inside.Load()
	if t == nil {
		return nil
	}
	return &HeldError{Holder: Holder{
		Owner: t.owner, Token: t.token, TTL: max(0, time.Until(t.deadline())), Waiters: -1,
	}}
}
