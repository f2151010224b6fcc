package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// newHeld is what r asks for.
func (b *Backend) newHeld(r backend.Request) *held {
	h := &held{h: hashOf(r.Key), owner: r.Owner, shared: r.Shared, ttl: b.guarantees.Round(r.TTL)}
	h.entry = labelEntry(h.h, r.Owner)
	return h
}

// An attempt asks for a lock, on one session.
type attempt struct {
	*held
	sent  time.Time
	token uint64 // 0 if the key is held
}

// try makes one attempt. again reports that the connection was at rest and turned out to have ended before.
func (b *Backend) try(ctx context.Context, r backend.Request) (l backend.Lease, again bool, err error) {
	h := b.newHeld(r)
	s, err := b.pool.checkOut(ctx, &order{h: h, wait: r.Wait})
	if err != nil {
		b.pool.drop(h)
		return nil, false, err
	}
	a := attempt{held: h}
	used := s.answered.Load()
	err = s.make(ctx, request{limit: b.options.Timeout, alone: true, do: a.ask})
	switch {
	case err == nil && a.token > 0:
		l, err := b.grant(ctx, r, a)
		return l, false, err
	case err == nil:
		err = backend.ErrHeld
	case kit.Ended(ctx):
		err = kit.ContextError(ctx, err)
	case neverHeld(err) && !errors.Is(err, backend.ErrUnsupported):
		again = used
	}
	b.pool.drop(h)
	if again && errors.Is(err, errUnanswered) {
		// The path may have broken and not the session, which may have the lock by now, and would refuse it to the next
		// attempt.
		again = b.terminateBroken(ctx, s) == nil
		if !again && kit.Ended(ctx) {
			err = kit.ContextError(ctx, err)
		}
	}
	return nil, again, err
}

// ask asks for the lock once.
func (a *attempt) ask() (err error) {
	a.sent = time.Now()
	a.token, err = a.s.lock(a.held, stTry)
	return err
}

// grant begins the life of what a holds.
func (b *Backend) grant(ctx context.Context, r backend.Request, a attempt) (backend.Lease, error) {
	h, p := a.held, &b.pool
	life, err := b.leases.Grant(ctx, r, kit.Grant{Token: a.token, Sent: a.sent, TTL: h.ttl, Data: h})
	if err != nil {
		return nil, err // Leases gives it back
	}
	p.began(h, life, false)
	if p.isGone(h) { // its session has ended meanwhile
		life.Lose()
	}
	life.OnLost(func() { b.expired(h) })
	return life, nil
}

// expired gives up a lock whose lease is over: its session may live on with others.
func (b *Backend) expired(h *held) {
	if b.leases.Closed() {
		return // its key stays held until the TTL has run out
	}
	// However long others have their turn before: they keep the session alive, and with it the lock.
	b.leases.Go(func(ctx context.Context) {
		if err := b.giveUp(ctx, h); errors.Is(err, errBroken) {
			b.terminateLater(h.s.server) // with others, as many may have broken at once
		}
	})
}
