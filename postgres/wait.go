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
		return backend.Poll(cctx, pause, outlive, try)
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

// queue waits once. queued tells that the request was sent: its connection was good.
func (b *Backend) queue(ctx context.Context, r backend.Request, busy *error) (l backend.Lease, queued bool, err error) {
	h, err := b.newHold(r)
	if err != nil {
		return nil, false, err
	}
	s, err := b.pool.checkOut(ctx, h, false, true)
	if err != nil {
		b.pool.drop(h)
		return nil, false, err
	}
	b.pool.beginQueue(s, h)
	var (
		sent  time.Time
		token uint64
	)
	_, err = s.make(ctx, request{
		alone: true,
		do: func(rctx context.Context) (err error) {
			sent = time.Now()
			if token, err = s.lock(rctx, h, stWait); err != nil {
				return err
			}
			if time.Since(sent) > h.ttl/lateGrant {
				sent = time.Now()
				s.bound(b.options.Timeout)
				if err = s.renew(rctx, h, h.ttl); err != nil {
					s.close()
				}
			}
			return err
		},
	})
	if held := b.pool.endQueue(s, h); held != nil {
		*busy = held
	}
	if err != nil {
		b.pool.drop(h)
		b.pool.checkIn(s)
		return nil, true, err
	}
	l, err = b.grant(ctx, r, h, sent, token)
	return l, true, err
}

// beginQueue tells that s is about to wait in the server's queue for h.
func (p *pool) beginQueue(s *session, h *hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.waits, s.unheard = true, h
	p.changedLocked() // nobody need hope for this session
}

// endQueue returns what was heard of the key meanwhile, if anything was.
func (p *pool) endQueue(s *session, h *hold) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.waits, s.unheard = false, nil
	p.changedLocked()
	if h.heard == nil {
		return nil
	}
	return h.heard
}

// hear asks, for a wait that has not been answered soon, whether it stands in the server's queue, and who holds the key: the statement
// itself tells nothing before it is granted. It goes on until the wait ends or the server has said so.
func (b *Backend) hear(s *session, h *hold) {
	pause := backend.Pause{Min: pollMin, Max: pollMax}
	for {
		rows, _ := b.holdersOf(b.base, h.h)
		var held backend.HeldError
		queued := false
		for _, row := range rows {
			if row[0] == "t" {
				held.Holder, _ = holderOf(row, h.h)
			} else {
				held.Holder.Waiters++
				queued = queued || row[1] == s.server.pid
			}
		}
		b.pool.mu.Lock()
		over := s.unheard != h
		if queued && held.Holder.Held() && !over {
			h.heard, s.unheard, over = &held, nil, true
		}
		b.pool.mu.Unlock()
		if over || backend.Sleep(b.closing, pause.Next(0)) != nil {
			return
		}
	}
}
