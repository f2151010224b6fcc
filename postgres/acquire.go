package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	// pollMin and pollMax bound the pause between the attempts of a waiter that is not in the server's queue.
	pollMin = 20 * time.Millisecond
	pollMax = 500 * time.Millisecond
	// If a wait takes longer than TTL/lateGrant, the lease is renewed at once, so that its holder has the full TTL. The
	// deadline counts from when the wait was sent.
	lateGrant = 20
)

// Acquire implements [backend.Backend]. Waiters wait in the server's queue, each on its own connection. A waiter polls
// if MaxLeases/2 waiters of this Backend are already in the queue.
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return b.leases.Acquire(ctx, r, kit.Waiter{
		Try:     func(ctx context.Context) (backend.Lease, error) { return b.try(ctx, r) },
		Pause:   kit.Pause{Min: pollMin, Max: pollMax},
		Passing: func(err error) bool { return !errors.Is(err, ErrExhausted) },
		CleanUp: func() {}, // a failed attempt has already closed its connection or released the lock
	})
}

// try makes an attempt. It repeats the attempt if the connection had been idle and had already ended. A waiter also
// retries while the server has no free connection. If the server's lock table is full, even a waiter gets the error,
// because the full table affects every client.
func (b *Backend) try(ctx context.Context, r backend.Request) (backend.Lease, error) {
	pause := kit.Pause{Min: pollMin, Max: pollMax}
	for repeats := 0; ; {
		l, again, err := b.attempt(ctx, r)
		err = unavailable(err)
		crowded := r.Wait && errors.Is(err, ErrExhausted) && code(err) != codeOutOfMemory
		switch {
		case crowded && kit.Sleep(ctx, pause.Next(0)) == nil:
		case again && repeats <= b.options.MaxLeases:
			repeats++
		default:
			return l, err
		}
	}
}

// attempt requests the lock on one session. again reports whether another attempt may succeed: the session had been
// used before, has ended, and holds no lock.
func (b *Backend) attempt(ctx context.Context, r backend.Request) (l backend.Lease, again bool, err error) {
	h := &checkout{hash: hashOf(r.Key), shared: r.Shared, wait: r.Wait, ttl: b.guarantees.Round(r.TTL)}
	h.entry = labelEntry(h.hash, r.Owner)
	s, err := b.pool.checkOut(ctx, h)
	if err != nil {
		b.pool.drop(h)
		return nil, false, err
	}
	g := kit.Grant{TTL: h.ttl, Data: h}
	used, busy := s.answered.Load(), false
	err = s.request(ctx, func() (err error) {
		g.Sent = time.Now()
		if g.Token, err = s.lock(h, stTry); err != nil || g.Token > 0 {
			return err
		}
		if !h.wait || !b.pool.enterServerQueue(h) {
			return backend.ErrHeld
		}
		busy = true
		s.limit(ctx, 0) // the wait has no time limit
		g.Sent = time.Now()
		if g.Token, err = s.lock(h, stWait); err != nil || time.Since(g.Sent) <= h.ttl/lateGrant {
			return err
		}
		g.Sent = time.Now()
		s.limit(ctx, b.options.Timeout)
		if err = s.renew(h, h.ttl); err != nil {
			s.close()
		}
		return err
	})
	if err == nil {
		l, err = b.grant(ctx, r, g)
		return l, false, err
	}
	b.pool.drop(h)
	if busy { // the key was held: the server replies to a wait only when the lock is granted
		return nil, false, fmt.Errorf("%w, then: %w", backend.ErrHeld, err)
	}
	again = used && neverHeld(err)
	if again && errors.Is(err, errUnanswered) {
		// Perhaps only the network path has broken. The session may still live and hold the lock, which would block the next
		// attempt.
		again = b.terminateNow(ctx, s.server.session) == nil
	}
	return nil, again, err
}

// grant registers the lease that g describes, and connects it with its session.
func (b *Backend) grant(ctx context.Context, r backend.Request, g kit.Grant) (backend.Lease, error) {
	h := g.Data.(*checkout)
	life, err := b.leases.Grant(ctx, r, g)
	if err != nil {
		return nil, err // Leases releases the lock
	}
	if !b.pool.granted(h, life) {
		life.Lose()
	}
	life.OnLost(func() { b.releaseLost(h) })
	return life, nil
}

// releaseLost releases the lock of a lost lease, because the session may still be alive.
func (b *Backend) releaseLost(h *checkout) {
	if b.leases.Closed() {
		return // Close releases nothing: the key stays held until the TTL has run out
	}
	b.leases.Go(func(ctx context.Context) {
		if err := b.releaseLock(ctx, h); errors.Is(err, errBroken) {
			b.terminateLater(h.s.server.session) // in one batch, because many sessions may break at once
		}
	})
}
