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
	// Waiters for whom there is no connection ask again and again.
	pollMin = 20 * time.Millisecond
	pollMax = 500 * time.Millisecond
	// lateGrant is the part of its TTL that a wait may take before the lease is renewed to have its full TTL.
	lateGrant = 20
)

// Acquire implements [backend.Backend]. Waiters queue at the server, each on a connection of its own, and ask again and
// again where that is not possible.
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	w := kit.Waiter{
		Pause:   kit.Pause{Min: pollMin, Max: pollMax},
		Passing: func(err error) bool { return !errors.Is(err, ErrExhausted) },
		CleanUp: func() {}, // an attempt that failed has closed its connection, or given the lock up
	}
	var place *place
	if r.Wait {
		place = b.places.enter()
		defer place.leave()
		pause := w.Pause
		w.Sleep = func(ctx context.Context) error {
			if place.isReady() { // its connection broke in the queue
				return kit.Sleep(ctx, pollMin)
			}
			return place.wait(ctx, pause.Next(0))
		}
	}
	w.Try = func(ctx context.Context) (backend.Lease, error) {
		once := b.try
		if place != nil && place.isReady() {
			once = b.queue
		}
		l, err := b.attempt(ctx, r, once)
		return l, unavailable(err)
	}
	return b.leases.Acquire(ctx, r, w)
}

// attempt calls once, and again where a connection that was at rest turns out to have ended before. A waiter also waits
// for connections to come back; a full lock table is everybody's trouble.
func (b *Backend) attempt(ctx context.Context, r backend.Request,
	once func(ctx context.Context, r backend.Request) (l backend.Lease, again bool, err error),
) (backend.Lease, error) {
	pause := kit.Pause{Min: pollMin, Max: pollMax}
	for n := 0; ; n++ {
		l, again, err := once(ctx, r)
		crowded := r.Wait && errors.Is(unavailable(err), ErrExhausted) && code(err) != codeOutOfMemory
		switch {
		case crowded && kit.Sleep(ctx, pause.Next(0)) == nil:
		case !again || n > b.options.MaxLeases:
			return l, err
		}
	}
}

// queue makes a first attempt, and waits at the server if that is refused. again is as in try.
func (b *Backend) queue(ctx context.Context, r backend.Request) (l backend.Lease, again bool, err error) {
	h := b.newHeld(r)
	s, err := b.pool.checkOut(ctx, &order{h: h, wait: true})
	if err != nil {
		b.pool.drop(h)
		return nil, false, err
	}
	b.pool.began(h, nil, true)
	a, busy, used := attempt{held: h}, false, s.answered.Load()
	err = s.make(ctx, request{limit: b.options.Timeout, alone: true, do: func() error {
		if err := a.ask(); err != nil || a.token > 0 {
			return err
		}
		busy = true
		return a.queue()
	}})
	b.pool.began(h, nil, false)
	if err == nil {
		l, err = b.grant(ctx, r, a)
		return l, false, err
	}
	b.pool.drop(h)
	if busy { // the statement that waits answers nothing before it is granted
		return nil, false, fmt.Errorf("%w, then: %w", backend.ErrHeld, err)
	}
	return nil, used && neverHeld(err), err
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
		if err = s.renew(a.ttl); err != nil {
			s.close()
		}
	}
	return err
}
