package lock

import (
	"container/list"
	"context"
	"sync/atomic"

	"github.com/anylock/lock/backend"
)

// A gate lets one goroutine of the process at a time contend for, or hold, one key; the others queue behind it, first
// come first served. It exists while someone is inside, or is Locker.idle. Locker.mu guards its queue.
type gate struct {
	key     string
	inside  atomic.Pointer[tenure] // who holds the key, nil while the one inside still contends for it
	waiters *list.List             // of *waiter; nil until the first comes
}

// A turn is what a waiter is woken with: a live lease handed over, or nil to go and contend.
type turn struct{ handed *hold }

type waiter struct {
	turn  chan turn // takes one, without blocking the giver
	terms *settings
}

// enter passes the gate of key, or queues at it. The hold is a live lease that came with the pass, nil
// otherwise. The caller that passed must leave.
func (l *Locker) enter(ctx context.Context, key string, terms *settings, wait bool) (*gate, *hold, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, nil, ErrClosed
	}
	g := l.gates[key]
	switch g {
	case nil:
		g = &gate{key: key}
		l.gates[key] = g
		l.mu.Unlock()
		return g, nil, nil
	case l.idle:
		l.idle = nil
		l.mu.Unlock()
		return g, nil, nil
	}
	if !wait {
		err := g.heldLocked()
		l.mu.Unlock()
		return nil, nil, err
	}
	w := &waiter{turn: make(chan turn, 1), terms: terms}
	if g.waiters == nil {
		g.waiters = list.New()
	}
	place := g.waiters.PushBack(w)
	l.mu.Unlock()

	var err error
	select {
	case t := <-w.turn:
		return g, t.handed, nil
	case <-ctx.Done():
		err = backend.ContextError(ctx, nil)
	case <-l.done:
		err = ErrClosed
	}
	l.mu.Lock()
	select {
	case t := <-w.turn: // it came at the same moment
		pass := func() { l.passOn(g, t.handed) }
		closed := l.closed
		if !closed {
			l.background.Go(pass) // the caller wants to go
		}
		l.mu.Unlock()
		if closed { // nobody waits for background any more, and a closed store answers at once
			pass()
		}
	default:
		g.waiters.Remove(place)
		l.mu.Unlock()
	}
	return nil, nil, err
}

// passOn gives a turn that nobody wants to the next waiter.
func (l *Locker) passOn(g *gate, handed *hold) {
	if handed == nil {
		l.leave(g)
		return
	}
	_ = l.giveUp(context.Background(), g, handed) // the TTL ends what cannot be released
}

// leave lets the next waiter contend for the key, or closes the gate.
func (l *Locker) leave(g *gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.inside.Store(nil)
	l.callNextLocked(g, turn{})
}

func (l *Locker) callNextLocked(g *gate, t turn) {
	next := g.nextLocked()
	if next == nil {
		if l.idle != nil {
			delete(l.gates, l.idle.key)
		}
		l.idle = g
		return
	}
	g.waiters.Remove(g.waiters.Front())
	next.turn <- t
}

// nextLocked is the waiter that comes next, nil if there is none.
func (g *gate) nextLocked() *waiter {
	if g.waiters == nil || g.waiters.Len() == 0 {
		return nil
	}
	return g.waiters.Front().Value.(*waiter)
}

// heldLocked is the error of an attempt that must not wait.
func (g *gate) heldLocked() error {
	inside := g.inside.Load()
	if inside == nil {
		return ErrHeld // someone of this process is asking the store for it
	}
	return &HeldError{Holder: inside.holder()}
}
