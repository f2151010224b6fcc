package postgres

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

const (
	// Waiters for whom there is no connection ask again and again.
	pollMin = 20 * time.Millisecond
	pollMax = 500 * time.Millisecond
	// patience is the least time for which a waiter outlives an outage.
	patience = 10 * time.Second
	// lateGrant is the part of its TTL that a wait may take before the lease is renewed to have its full TTL.
	lateGrant = 20
)

// A waiter knows what it has heard of the server.
type waiter struct {
	busy  error     // its word that the key is held
	heard time.Time // when it said so last, or a connection that was good broke; an error that it answers may come for ever
}

// wait queues at the server, each waiter on a connection of its own, and asks again and again where that is not possible.
func (b *Backend) wait(ctx context.Context, r backend.Request) (backend.Lease, error) {
	cctx, cancel := b.untilClosing(ctx)
	defer cancel()
	queues := b.options.Mode == ModeSession && b.pool.beginWait()
	if queues {
		defer b.pool.endWait()
	}
	shares := b.guarantees.Round(r.TTL) <= b.options.Share
	pause := backend.Pause{Min: pollMin, Max: pollMax}
	for w := new(waiter); ; {
		var l backend.Lease
		var err error
		if !queues || shares && w.busy == nil {
			// A lease that is free now can join the connection of others; one that has queued has its own.
			l, err = b.try(cctx, r)
		} else {
			l, err = b.queue(cctx, r, w)
		}
		crowded := errors.Is(err, ErrExhausted) && code(err) != codeOutOfMemory // connections come back, a full lock table is everybody's trouble
		switch {
		case err == nil:
			return l, nil
		case backend.Ended(ctx):
			return nil, backend.ContextError(ctx, cmp.Or(w.busy, err))
		case b.isClosing():
			return nil, backend.ErrClosed
		case errors.Is(err, backend.ErrHeld):
			w.busy, w.heard = err, time.Now()
			if queues {
				continue
			}
		case crowded:
		case backend.Definite(err) || errors.Is(err, ErrExhausted) || errors.Is(err, backend.ErrLost):
			return nil, err
		case time.Since(w.heard) > max(r.TTL, patience):
			return nil, err
		}
		if backend.Sleep(cctx, pause.Next(0)) != nil && backend.Ended(ctx) {
			return nil, backend.ContextError(ctx, cmp.Or(w.busy, err))
		}
	}
}

// untilClosing is ctx that ends when Close begins, too.
func (b *Backend) untilClosing(ctx context.Context) (context.Context, context.CancelFunc) {
	cctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(b.closing, func() { cancel(backend.ErrClosed) })
	return cctx, func() { stop(); cancel(nil) }
}

func (p *pool) beginWait() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiters >= p.b.options.MaxLeases/2 {
		return false
	}
	p.waiters++
	return true
}

func (p *pool) endWait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters--
}

// queue waits once, if a first attempt is refused.
func (b *Backend) queue(ctx context.Context, r backend.Request, w *waiter) (backend.Lease, error) {
	h := b.newHeld(r)
	s, err := b.pool.checkOut(ctx, &order{h: h, wait: true})
	if err != nil {
		b.pool.drop(h)
		return nil, err
	}
	b.pool.began(h, nil, true)
	a, busy := attempt{held: h}, false
	_, err = s.make(ctx, request{limit: b.options.Timeout, alone: true, do: func() error {
		if err := a.ask(ctx); err != nil || a.token > 0 {
			return err
		}
		busy, w.busy = true, backend.ErrHeld // the statement that waits tells nothing before it is granted
		return a.queue()
	}})
	b.pool.began(h, nil, false)
	if err != nil {
		if busy || neverHeld(err) {
			w.heard = time.Now()
		}
		b.pool.drop(h)
		return nil, err
	}
	return b.grant(ctx, r, a)
}

// queue asks for the lock by a statement that waits, for as long as it takes.
func (a *attempt) queue() (err error) {
	s := a.s
	s.limit(0)
	a.sent = time.Now()
	if a.token, err = s.lock(a.held, stWait); err != nil {
		return err
	}
	if time.Since(a.sent) > a.ttl/lateGrant {
		a.sent = time.Now()
		s.limit(s.b.options.Timeout)
		if err = s.renew(a.held, a.ttl); err != nil {
			s.close()
		}
	}
	return err
}
