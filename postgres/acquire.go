package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

// Acquire implements [backend.Backend].
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	defer b.calls.End()
	acquire := b.try
	if r.Wait {
		acquire = b.wait
	}
	l, err := acquire(ctx, r)
	if err != nil {
		return nil, told(ctx, b.closedOr(err))
	}
	return l, nil
}

// newHold counts in what r asks for.
func (b *Backend) newHold(r backend.Request) (*hold, error) {
	if err := b.pool.admit(); err != nil {
		return nil, err
	}
	h := &hold{h: hashOf(b.options.Namespace, r.Key), owner: r.Owner, ttl: b.guarantees.Round(r.TTL)}
	h.entry = labelEntry(h.h, r.Owner)
	return h, nil
}

// try makes one attempt, and others where connections that were at rest turn out to have ended before.
func (b *Backend) try(ctx context.Context, r backend.Request) (backend.Lease, error) {
	for n := 0; ; n++ {
		l, again, err := b.attempt(ctx, r)
		if !again || n > b.options.MaxLeases {
			return l, err
		}
	}
}

func (b *Backend) attempt(ctx context.Context, r backend.Request) (l backend.Lease, again bool, err error) {
	h, err := b.newHold(r)
	if err != nil {
		return nil, false, err
	}
	s, err := b.pool.checkOut(ctx, h, h.ttl <= b.options.Share, r.Wait)
	if err != nil {
		b.pool.drop(h)
		if backend.Ended(ctx) {
			err = backend.ContextError(ctx, err)
		}
		return nil, false, err
	}
	var (
		sent  time.Time
		token uint64
	)
	used := s.answered.Load()
	limit, alone := s.limit(h)
	left, err := s.make(ctx, request{
		limit: limit, alone: alone,
		do: func(rctx context.Context) (err error) {
			sent = time.Now()
			token, err = b.lockOnce(rctx, s, h)
			return err
		},
		left: func(error) { b.giveBack(s, h, token) },
	})
	switch {
	case left:
		return nil, false, err
	case err == nil && token > 0:
		l, err := b.grant(ctx, r, h, sent, token)
		return l, false, err
	case err == nil:
		err = backend.ErrHeld
	case backend.Ended(ctx):
		err = backend.ContextError(ctx, err)
	case neverHeld(err) && !errors.Is(err, backend.ErrUnsupported):
		again = used
	}
	b.pool.drop(h)
	b.pool.checkIn(s)
	if again && errors.Is(err, errUnanswered) {
		// The path may have broken and not the session, which may have the lock by now, and would refuse it to the next attempt.
		again = b.banish(ctx, s) == nil
		if !again && backend.Ended(ctx) {
			err = backend.ContextError(ctx, err)
		}
	}
	return nil, again, err
}

// limit bounds a request for h, and tells whether h is alone. A session with other leases is not given up while they live.
func (s *session) limit(h *hold) (limit time.Duration, alone bool) {
	p := &s.b.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	limit, alone = s.b.options.Timeout, true
	for _, other := range s.holds {
		if other != h {
			limit, alone = max(limit, other.ttl), false
		}
	}
	return limit, alone
}

// lockOnce asks once, in the way of the mode. Token 0 means that the key is held.
func (b *Backend) lockOnce(ctx context.Context, s *session, h *hold) (token uint64, err error) {
	if b.options.Mode == ModeTransaction {
		return s.lockTransaction(ctx, h)
	}
	return s.lock(ctx, h, stTry)
}

// giveBack ends an attempt whose caller has left, with the turn.
func (b *Backend) giveBack(s *session, h *hold, token uint64) {
	if token > 0 && !s.isBroken() {
		ctx, cancel := context.WithTimeout(b.base, b.options.Timeout)
		defer cancel()
		if err := s.unlock(ctx, h); err != nil {
			s.close()
		}
	}
	b.pool.drop(h)
	b.pool.checkIn(s)
}

// grant begins the life of what h holds.
func (b *Backend) grant(ctx context.Context, r backend.Request, h *hold, sent time.Time, token uint64) (backend.Lease, error) {
	p := &b.pool
	defer p.checkIn(h.s)
	life, err := b.leases.Grant(ctx, r, backend.Grant{Token: token, Sent: sent, TTL: h.ttl, Data: h})
	if err != nil {
		return nil, err // Leases gives it back
	}
	p.mu.Lock()
	h.life = life
	dead := h.s.dead
	p.mu.Unlock()
	if dead {
		life.Lose()
	}
	life.OnLost(func() { b.expired(h) })
	return life, nil
}

// expired gives up a lock whose lease is over: its session may live on with others.
func (b *Backend) expired(h *hold) {
	if b.isClosing() {
		return // its key stays held until the TTL has run out
	}
	// However long others have their turn before: they keep the session alive, and with it the lock.
	b.calls.Background(func() { _ = b.giveUp(b.base, h) })
}
