package lock

import (
	"cmp"
	"container/list"
	"context"
	"time"

	"github.com/anylock/lock/backend/kit"
)

// enter passes the gate of key, or queues at it. The tenure is on a live lease that the last holder handed on, nil
// otherwise; busy means that the key was held meanwhile. The caller that passed must leave.
func (l *Locker) enter(ctx context.Context, key string, terms *settings, wait bool) (_ *gate, _ *tenure, busy, err error) {
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
	switch g {
	case nil:
		g = &gate{key: key}
		l.gates[key] = g
		l.mu.Unlock()
		return g, nil, nil, nil
	case l.idle:
		l.idle = nil
		l.mu.Unlock()
		return g, nil, nil, nil
	}
	busy = g.heldLocked()
	if !wait {
		l.mu.Unlock()
		if busy == nil { // someone of this process is asking the store for it
			busy, err = l.look(ctx, key)
		}
		return nil, nil, nil, cmp.Or(err, busy)
	}
	w := &waiter{turn: make(chan *tenure, 1), terms: terms}
	if g.waiters == nil {
		g.waiters = list.New()
	}
	place := g.waiters.PushBack(w)
	l.mu.Unlock()

	since := time.Now()
	var half *time.Timer
	var looks <-chan time.Time
	if busy == nil && terms.limited {
		half = time.NewTimer(terms.wait / 2)
		defer half.Stop()
		looks = half.C
	}
	for over := false; !over; {
		select {
		case handed := <-w.turn:
			return g, handed, busy, nil
		case <-looks:
			if left := l.lookOnce(ctx, g, since); left > time.Millisecond {
				half.Reset(left / 2)
			}
			continue
		case <-ctx.Done():
		case <-l.stopping:
			err = ErrClosed
		}
		over = true
	}
	l.mu.Lock()
	if err == nil {
		if busy == nil {
			busy = g.heldLocked()
		}
		if busy == nil && !g.busyAt.Before(since) {
			busy = g.busy
		}
		err = kit.ContextError(ctx, busy)
	}
	select {
	case handed := <-w.turn: // it came at the same moment
		pass := func() { l.passOn(g, handed) }
		closed := isClosed(l.done)
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
	return nil, nil, nil, err
}

// enterPrivate returns a gate for one lease. Shutdown waits until the caller leaves it.
func (l *Locker) enterPrivate(key string, shared bool) (*gate, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isClosed(l.stopping) {
		return nil, ErrClosed
	}
	g := &gate{key: key, shared: shared}
	l.private[g] = struct{}{}
	return g, nil
}

// look asks the store whether a key is busy that someone of this process is asking it for. Any answer makes it so.
func (l *Locker) look(ctx context.Context, key string) (busy, err error) {
	h, err := l.backend.Inspect(ctx, key)
	switch {
	case err != nil:
		return nil, err
	case h.Held():
		return &HeldError{Holder: l.withToken(h)}, nil
	}
	return ErrHeld, nil
}

// lookOnce lets a waiter look, in the background, that has heard nothing since then, one at a time. It returns the time
// until ctx ends, or 0 if it need not look again.
func (l *Locker) lookOnce(ctx context.Context, g *gate, since time.Time) (left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case isClosed(l.done) || !g.busyAt.Before(since):
		return 0
	case !g.looking:
		g.looking = true
		l.background.Go(func() {
			busy, err := l.look(ctx, g.key)
			l.mu.Lock()
			defer l.mu.Unlock()
			g.looking = false
			if err == nil {
				g.busy, g.busyAt = busy, time.Now()
			}
		})
	}
	end, _ := ctx.Deadline()
	return time.Until(end)
}

// passOn gives a turn that nobody wants to the next waiter.
func (l *Locker) passOn(g *gate, handed *tenure) {
	if handed == nil {
		l.leave(g)
		return
	}
	_ = handed.giveUp(context.Background()) // the TTL ends what cannot be released
}

// heldLocked is the error of an attempt that must not wait behind a holder of this process, nil if there is none.
func (g *gate) heldLocked() error {
	inside := g.inside.Load()
	if inside == nil {
		return nil
	}
	return &HeldError{Holder: inside.holder()}
}
