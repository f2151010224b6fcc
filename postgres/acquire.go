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
	// Waiters who are not in the server's queue ask again and again.
	pollMin = 20 * time.Millisecond
	pollMax = 500 * time.Millisecond
	// lateGrant is the part of its TTL that a wait may take before the lease is renewed to have its full TTL.
	lateGrant = 20
)

// Acquire implements [backend.Backend]. Waiters queue at the server, each on a connection of its own, and ask again and
// again where that is not possible.
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	return b.leases.Acquire(ctx, r, kit.Waiter{
		Try:     func(ctx context.Context) (backend.Lease, error) { return b.try(ctx, r) },
		Pause:   kit.Pause{Min: pollMin, Max: pollMax},
		Passing: func(err error) bool { return !errors.Is(err, ErrExhausted) },
		CleanUp: func() {}, // an attempt that failed has closed its connection, or given the lock up
	})
}

// try makes an attempt, and another where a connection that was at rest turns out to have ended before. A waiter also
// waits for connections to come back; a full lock table is everybody's trouble.
func (b *Backend) try(ctx context.Context, r backend.Request) (backend.Lease, error) {
	pause := kit.Pause{Min: pollMin, Max: pollMax}
	for n := 0; ; n++ {
		l, again, err := b.attempt(ctx, r)
		err = unavailable(err)
		crowded := r.Wait && errors.Is(err, ErrExhausted) && code(err) != codeOutOfMemory
		switch {
		case crowded && kit.Sleep(ctx, pause.Next(0)) == nil:
		case !again || n > b.options.MaxLeases:
			return l, err
		}
	}
}

// attempt asks for the lock on one session. again reports that the session was at rest and had ended before.
func (b *Backend) attempt(ctx context.Context, r backend.Request) (l backend.Lease, again bool, err error) {
	h := &held{h: hashOf(r.Key), shared: r.Shared, wait: r.Wait, ttl: b.guarantees.Round(r.TTL)}
	h.entry = labelEntry(h.h, r.Owner)
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
		if !h.wait || !b.pool.queue(h) {
			return backend.ErrHeld
		}
		busy = true
		s.limit(ctx, 0) // the wait takes as long as it takes
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
	if busy { // the statement that waits answers nothing before it is granted
		return nil, false, fmt.Errorf("%w, then: %w", backend.ErrHeld, err)
	}
	again = used && neverHeld(err)
	if again && errors.Is(err, errUnanswered) {
		// The path may have broken and not the session, which may have the lock by now, and would refuse it to the next
		// attempt.
		again = b.terminateNow(ctx, s.server) == nil
	}
	return nil, again, err
}

// grant begins the life of what g grants.
func (b *Backend) grant(ctx context.Context, r backend.Request, g kit.Grant) (backend.Lease, error) {
	h := g.Data.(*held)
	life, err := b.leases.Grant(ctx, r, g)
	if err != nil {
		return nil, err // Leases gives it back
	}
	if !b.pool.granted(h, life) {
		life.Lose()
	}
	life.OnLost(func() { b.expired(h) })
	return life, nil
}

// expired gives up a lock whose lease is over: its session may live on.
func (b *Backend) expired(h *held) {
	if b.leases.Closed() {
		return // its key stays held until the TTL has run out
	}
	b.leases.Go(func(ctx context.Context) {
		if err := b.giveUp(ctx, h); errors.Is(err, errBroken) {
			b.terminateLater(h.s.server) // with others, as many may have broken at once
		}
	})
}
