package postgres

import (
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

// wait waits until there is room, as long as ctx lives, and then for the key.
func (b *Backend) wait(ctx context.Context, r backend.Request) (backend.Lease, error) {
	var busy error // the store's word, if it has been heard
	pause := backend.Pause{Min: pollMin, Max: pollMax}
	for {
		l, err := b.waitForKey(ctx, r, &busy)
		crowded := errors.Is(err, ErrExhausted) && code(err) != codeOutOfMemory // connections come back, a full lock table is everybody's trouble
		if crowded && !backend.Ended(ctx) && !b.isClosing() {
			cctx, cancel := b.untilClosing(ctx)
			_ = backend.Sleep(cctx, pause.Next(0)) // the loop finds out
			cancel()
			continue
		}
		if err != nil && backend.Ended(ctx) && busy != nil {
			return nil, backend.ContextError(ctx, busy)
		}
		return l, err
	}
}

// waitForKey queues at the server, each waiter on a connection of its own, and asks again and again where that is not possible.
func (b *Backend) waitForKey(ctx context.Context, r backend.Request, busy *error) (backend.Lease, error) {
	outlive := max(r.TTL, patience)
	try := func(ctx context.Context) (backend.Lease, error) {
		l, err := b.try(ctx, r)
		if errors.Is(err, backend.ErrHeld) {
			*busy = err
		}
		return l, err
	}
	if b.options.Mode == ModeTransaction || !b.pool.beginWait() {
		pause := backend.Pause{Min: pollMin, Max: pollMax}
		cctx, cancel := b.untilClosing(ctx)
		defer cancel()
		l, err := backend.Poll(cctx, pause, outlive, try)
		if err != nil && b.isClosing() && !backend.Ended(ctx) {
			return nil, backend.ErrClosed
		}
		return l, err
	}
	defer b.pool.endWait()
	if b.guarantees.Round(r.TTL) <= b.options.Share {
		// A lease that is free now can join the connection of others; one that has queued has its own.
		if l, err := try(ctx); !errors.Is(err, backend.ErrHeld) {
			return l, err
		}
	}
	var (
		heard time.Time // when a connection broke in which it had queued
		pause = backend.Pause{Min: pollMin, Max: pollMax}
	)
	for {
		l, queued, err := b.queue(ctx, r, busy)
		switch {
		case err == nil:
			return l, nil
		case backend.Ended(ctx):
			return nil, backend.ContextError(ctx, err)
		case b.isClosing():
			return nil, backend.ErrClosed
		case backend.Definite(err) || errors.Is(err, ErrExhausted) || errors.Is(err, backend.ErrLost):
			return nil, err
		case queued:
			heard = time.Now()
		case heard.IsZero() || time.Since(heard) > outlive:
			return nil, err
		}
		cctx, cancel := b.untilClosing(ctx)
		_ = backend.Sleep(cctx, pause.Next(0)) // the loop finds out
		cancel()
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

// queue waits once, if a first attempt is refused. queued tells that the request was sent: its connection was good.
func (b *Backend) queue(ctx context.Context, r backend.Request, busy *error) (l backend.Lease, queued bool, err error) {
	h := b.newHold(r)
	s, err := b.pool.checkOut(ctx, &place{h: h, wait: true})
	if err != nil {
		b.pool.drop(h)
		return nil, false, err
	}
	b.pool.began(h, nil, true)
	a := attempt{hold: h}
	cctx, cancel := b.untilClosing(ctx)
	defer cancel()
	_, err = s.make(cctx, request{alone: true, do: func() error {
		if err := a.ask(cctx); err != nil || a.token > 0 {
			return err
		}
		*busy = backend.ErrHeld // the statement that waits tells nothing before it is granted
		return a.queue()
	}})
	b.pool.began(h, nil, false)
	if err != nil {
		b.pool.drop(h)
		return nil, true, err
	}
	l, err = b.grant(ctx, r, a)
	return l, true, err
}

// queue asks for the lock by a statement that waits.
func (a *attempt) queue() (err error) {
	s := a.s
	a.sent = time.Now()
	if a.token, err = s.lock(a.hold, stWait); err != nil {
		return err
	}
	if time.Since(a.sent) > a.ttl/lateGrant {
		a.sent = time.Now()
		s.limit(s.b.options.Timeout)
		if err = s.renew(a.hold, a.ttl); err != nil {
			s.close()
		}
	}
	return err
}
