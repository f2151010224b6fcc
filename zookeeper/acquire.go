package zookeeper

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// An attempt is one Acquire, from its first request to its grant or end.
type attempt struct {
	b     *Backend
	r     backend.Request
	ttl   time.Duration // as it will be granted
	class time.Duration // of its session
	begun time.Time

	queued   time.Time // when it got its place
	missing  bool      // the key had no container
	answered time.Time // when the ensemble said last that the key is busy, or was heard of since
	busy     error     // what it said then: ErrHeld; nil if the Waiter knows it
	moved    bool      // its session had ended, and it has begun again
	unproven bool      // a node of this attempt may still exist: see refusal.go
}

// leastPatience is the shortest time for which a waiter outlives an outage.
const leastPatience = 10 * time.Second

// try makes one attempt. Unless it may wait, it looks first whether the key is busy. If its session has ended, it
// begins again in another one, once.
func (a *attempt) try(ctx context.Context) (l backend.Lease, err error) {
	for range 2 {
		if err = nil; !a.r.Wait {
			err = a.refused(ctx)
		}
		if err == nil {
			l, err = a.once(ctx)
		}
		err = a.definite(err)
		if a.moved || kit.Ended(ctx) || !errors.Is(err, errExpired) && !errors.Is(err, errAbandoned) {
			break
		}
		a.moved = true
	}
	return l, unavailable(ctx, err)
}

// lastRefusal returns the refusal since it was last called, nil if there was none.
func (a *attempt) lastRefusal() error {
	busy := a.busy
	a.busy = nil
	return busy
}

// refused looks whether the key is busy, which costs one read. A server of several may not know yet that a key was released,
// so that it is asked again, as of now, before an attempt is refused.
func (a *attempt) refused(ctx context.Context) error {
	s, err := a.b.enterAny(a.class)
	if err != nil {
		return err
	}
	defer a.b.leave(s)
	dir := a.b.dir(a.r.Key)
	names, err := s.children(ctx, dir)
	if err == nil && !a.b.alone && len(queueOf(names)) > 0 {
		names, err = s.latest(ctx, dir)
	}
	if a.missing = errors.Is(err, zk.ErrNoNode); a.missing {
		return nil
	}
	if q := queueOf(names); err == nil && len(q) > 0 {
		return heldError(q)
	}
	return err
}

func heldError(q []place) error {
	if owner := q[0].owner(); owner != "" {
		return &backend.HeldError{Holder: backend.Holder{Owner: owner, Waiters: len(q) - 1}}
	}
	return backend.ErrHeld
}

// once makes a node in the session of the class, and waits for its turn if it may.
func (a *attempt) once(ctx context.Context) (backend.Lease, error) {
	s, err := a.b.enter(a.class)
	if err != nil {
		return nil, err
	}
	defer a.b.leave(s)
	n, names, sent, err := a.place(ctx, s)
	if err != nil {
		return nil, err
	}
	a.queued = time.Now()
	l, err := a.queue(ctx, s, n, names, sent)
	if err != nil {
		if !s.withdraw(ctx, n, err) {
			a.unproven = true
		}
		return nil, err
	}
	return l, nil
}

// place creates a node whose number gives it a place in the queue.
func (a *attempt) place(ctx context.Context, s *session) (n *node, names []string, sent time.Time, err error) {
	for {
		n = newNode(a.b, a.r)
		n.s = s
		names, sent, err = s.create(ctx, n, a.missing)
		a.unproven = a.unproven || n.stray
		if err != nil || isOrdered(n.number) {
			return n, names, sent, err
		}
		if err = a.replaceContainer(ctx, s, n); err != nil {
			return nil, nil, time.Time{}, err
		}
	}
}

// queue brings n from its place in the queue to its grant. Nobody comes before it: who was told that the last one there is gone need
// not look.
func (a *attempt) queue(ctx context.Context, s *session, n *node, names []string, sent time.Time) (backend.Lease, error) {
	for first := false; !first; names = nil {
		if names == nil {
			var err error
			if names, err = a.list(ctx, s, n); err != nil {
				return nil, err
			}
		}
		before, found := ahead(names, n)
		switch {
		case !found:
			return nil, s.gone()
		case len(before) == 0:
			first = true
			continue
		case !a.r.Wait:
			return nil, heldError(before)
		}
		a.answered, a.busy = time.Now(), heldError(before)
		gone, err := a.sleep(ctx, s, n, before)
		if err != nil {
			return nil, err
		}
		first = gone && len(before) == 1
	}
	if !a.isRecent(sent) {
		// What was read may be old, and this session gone: only a write tells.
		var err error
		if sent, err = a.proof(ctx, s, n); err != nil {
			return nil, err
		}
	}
	return a.grant(ctx, s, n, sent)
}

// isRecent reports whether a lease may count from sent, when a write was sent that proved its node and session. Nobody can
// have removed the node since, as long as the lease lasts, so that a waiter whose turn comes soon needs no other write.
func (a *attempt) isRecent(sent time.Time) bool {
	const share = 8 // of the TTL is lost at most
	return !a.countsFromWrite() || time.Since(sent) < min(a.ttl, a.b.guarantees.MaxSilence)/share
}

// countsFromWrite reports whether the lease counts from its last write, and not from the attempt: a waiter's does, and one that is kept
// for MaxSilence from there.
func (a *attempt) countsFromWrite() bool {
	return !a.answered.IsZero() || a.ttl > a.b.guarantees.MaxSilence
}

// ahead returns the places before n's in the queue, and whether its own is there.
func ahead(children []string, n *node) (before []place, found bool) {
	q := queueOf(children)
	i := slices.IndexFunc(q, func(p place) bool { return p.name == n.name })
	if i < 0 {
		return nil, false
	}
	return q[:i], true
}

// persist repeats a request while the ensemble is away for a while.
func (a *attempt) persist(ctx context.Context, s *session, do func() error) error {
	pause := kit.Pause{Min: 20 * time.Millisecond, Max: time.Second}
	for {
		err := do()
		if err == nil || !a.mayGoOn(ctx, s, err) {
			return err
		}
		if err := kit.Sleep(ctx, pause.Next(0)); err != nil {
			return err
		}
	}
}

// list reads the queue.
func (a *attempt) list(ctx context.Context, s *session, n *node) (names []string, err error) {
	err = a.persist(ctx, s, func() error {
		names, err = s.children(ctx, n.dir)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil // with the node in it
	}
	return names, err
}

// mayGoOn reports whether a request that failed with err may be made again in the same session.
func (a *attempt) mayGoOn(ctx context.Context, s *session, err error) bool {
	patience := a.b.options.Timeout
	last := a.queued
	if a.r.Wait {
		patience = max(a.ttl, leastPatience)
	}
	if a.answered.After(last) {
		last = a.answered
	}
	return ctx.Err() == nil && !s.isOver() && !a.b.isClosing() && passing(err) && time.Since(last) <= patience
}

// proof makes sure of n and the session by a write, and returns a time from before it was sent.
func (a *attempt) proof(ctx context.Context, s *session, n *node) (at time.Time, err error) {
	err = a.persist(ctx, s, func() error {
		at = time.Now()
		return s.check(ctx, n.path())
	})
	if errors.Is(err, zk.ErrNoNode) {
		err = s.gone()
	}
	return at, err
}

// gone is why a node is not there any more.
func (s *session) gone() error {
	if s.isOver() {
		return s.reason()
	}
	return errGone
}

// grant begins the lease of n, which is the first in the queue by a write sent at sent.
func (a *attempt) grant(ctx context.Context, s *session, n *node, sent time.Time) (backend.Lease, error) {
	kept := min(a.ttl, a.b.guarantees.MaxSilence)
	floor := a.begun
	if a.countsFromWrite() {
		floor = sent
	}
	if end := backend.Deadline(floor, kept); s.contact.bound().Before(end) {
		err := s.secure(ctx, backend.Deadline(time.Now(), kept), func(ctx context.Context) error {
			at, err := a.proof(ctx, s, n)
			sent = at
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	// The lease may end no later than the ensemble keeps the session.
	latest := s.contact.bound().Add(backend.Margin(kept) - kept)
	if latest.Before(sent) {
		sent = latest
	}
	if err := a.b.keep(s, n); err != nil {
		return nil, err
	}
	life, err := a.b.leases.Grant(ctx, a.r, kit.Grant{Token: n.token, Sent: sent, TTL: a.ttl, Data: n})
	if err != nil {
		s.part(n)
		return nil, err
	}
	return a.b.begin(n, life), nil
}
