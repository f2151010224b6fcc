package kit

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

// Enter begins a call of one of the client's methods. It returns an error if the call must not begin: invalid if that
// is not nil, the error of ctx if ctx has ended, or ErrClosed. Otherwise the caller must end the call with Leave, and
// Close waits for that.
func (s *Leases) Enter(ctx context.Context, invalid error) error {
	if err := cmp.Or(invalid, ContextError(ctx, nil)); err != nil {
		return err
	}
	s.underway.Add(1) // before checking closed: otherwise Close might not wait for the call
	if s.Closed() {
		s.Leave()
		return backend.ErrClosed
	}
	return nil
}

// Leave ends the call that Enter began.
func (s *Leases) Leave() {
	if s.underway.Add(-1) == 0 && s.Closed() {
		select {
		case s.idle <- struct{}{}:
		default:
		}
	}
}

// Call runs a call of one of the client's methods. It calls do between Enter and Leave, with a context that also ends
// when Close begins, and converts do's error for callers. If ctx has ended, the result is ctx's error, joined with
// do's. If Close has begun, it is ErrClosed. If another context has ended, it is ErrUnavailable. ErrHeld, ErrLost,
// ErrInvalid and ErrUnsupported stay as they are, because they are the store's answer.
func (s *Leases) Call(ctx context.Context, invalid error, do func(ctx context.Context) error) error {
	if err := s.Enter(ctx, invalid); err != nil {
		return err
	}
	defer s.Leave()
	bound := &bounded{parent: ctx, leases: s}
	err := do(bound)
	bound.cancel()
	switch {
	case err == nil, isAnswer(err):
		return err
	case Ended(ctx):
		return ContextError(ctx, err)
	case s.Closed():
		return backend.ErrClosed
	}
	return NotOurs(ctx, err)
}

// Call is [Leases.Call] for a method that returns a value. If the method fails, the value is the zero T, so that an
// interface is nil.
func Call[T any](ctx context.Context, s *Leases, invalid error, do func(ctx context.Context) (T, error)) (T, error) {
	var value, none T
	err := s.Call(ctx, invalid, func(ctx context.Context) (err error) {
		value, err = do(ctx)
		return err
	})
	if err != nil {
		return none, err
	}
	return value, nil
}

// Acquire implements a Backend's Acquire with w: it makes one attempt, or as many as needed if r waits. If it fails, it
// removes, in the background, anything that the store may keep of the owner.
func (s *Leases) Acquire(ctx context.Context, r backend.Request, w Waiter) (backend.Lease, error) {
	g := s.requests.Guarantees()
	return Call(ctx, s, r.ValidateFor(g), func(ctx context.Context) (l backend.Lease, err error) {
		if r.Wait {
			w.Patience = max(r.TTL, w.Patience, leastPatience)
			l, err = w.Wait(ctx)
		} else {
			l, err = w.try(ctx)
		}
		switch {
		case err == nil:
		case w.CleanUp != nil:
			w.CleanUp()
		case w.unsure:
			s.Abandon(r, g.Round(r.TTL))
		case errors.Is(err, backend.ErrLost): // Grant has begun the clean-up
		case w.refused, errors.Is(err, backend.ErrClosed):
			s.Withdraw(r, g.Round(r.TTL))
		}
		return l, err
	})
}

// Go runs f on a goroutine that Close waits for. f's context ends when Close stops waiting. Go reports whether it runs
// f: after Close has stopped waiting, it does not.
func (s *Leases) Go(f func(ctx context.Context)) bool {
	s.underway.Add(1)
	if s.base.Err() != nil {
		s.Leave()
		return false
	}
	go func() {
		defer s.Leave()
		f(s.base)
	}()
	return true
}

// Idle reports whether no call, renewal, release or background work is under way.
func (s *Leases) Idle() bool { return s.underway.Load() == 0 }

// Closed reports whether Close has begun.
func (s *Leases) Closed() bool { return s.closing.Err() != nil }

// Closing returns a context that ends when Close begins.
func (s *Leases) Closing() context.Context { return s.closing }

// Base returns the context of releases, clean-ups and background work. It ends when Close stops waiting for them.
func (s *Leases) Base() context.Context { return s.base }

// Drain waits, after Close, until no call, renewal, release or background work is under way, but no longer than a
// second.
func (s *Leases) Drain() {
	grace := time.After(closeGrace)
	for s.underway.Load() > 0 {
		select {
		case <-s.idle:
		case <-grace:
			return
		}
	}
}
