package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
)

// An attempt is one Acquire, from its first request to its grant or end.
type attempt struct {
	b     *Backend
	r     backend.Request
	ttl   time.Duration // as it will be granted
	class time.Duration // of its session
	begun time.Time

	queued   time.Time // when it got its place
	answered time.Time // when the ensemble said last that the key is busy, or was heard of since
	busy     error     // what it said then: ErrHeld; nil before
}

// leastPatience is the shortest time for which a waiter outlives an outage.
const leastPatience = 10 * time.Second

// run makes the attempt. A waiter whose session ends queues again in another one.
func (a *attempt) run(ctx context.Context) (backend.Lease, error) {
	if !a.r.Wait {
		err := a.refused(ctx)
		if errors.Is(err, errExpired) { // while nobody was using it
			err = a.refused(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	expired := false
	pause := backend.Pause{Min: 20 * time.Millisecond, Max: time.Second}
	for {
		l, err := a.once(ctx)
		switch {
		case err == nil:
			return l, nil
		case backend.Ended(ctx):
			return nil, backend.ContextError(ctx, cmp.Or(a.busy, err))
		case a.b.isClosing():
			return nil, backend.ErrClosed
		case errors.Is(err, errExpired) && !expired: // and the node with it, if there was one
			expired = true
			continue
		case !a.r.Wait, a.answered.IsZero(), !passing(err), time.Since(a.answered) > max(a.ttl, leastPatience):
			return nil, err
		}
		if serr := a.b.sleep(ctx, pause.Next(0)); serr != nil {
			if backend.Ended(ctx) {
				serr = backend.ContextError(ctx, cmp.Or(a.busy, err))
			}
			return nil, serr
		}
	}
}

// refused looks whether the key is busy, which costs one read. A server of several may not know yet that a key was released,
// so that it is asked again, as of now, before an attempt is refused.
func (a *attempt) refused(ctx context.Context) error {
	s, err := a.b.enterAny(a.class)
	if err != nil {
		return err
	}
	defer a.b.leave(s)
	l, err := s.children(ctx, a.b.dir(a.r.Key))
	if err == nil && !a.b.alone && len(queueOf(l.names)) > 0 {
		l, err = s.latest(ctx, a.b.dir(a.r.Key))
	}
	if errors.Is(err, zk.ErrNoNode) {
		a.b.dirs.missed(a.b.dir(a.r.Key))
		return nil
	}
	if err != nil {
		return a.closedOr(ctx, err)
	}
	if q := queueOf(l.names); len(q) > 0 {
		return heldError(q)
	}
	a.b.dirs.found(a.b.dir(a.r.Key), false)
	return nil
}

// closedOr is err, or what the end of the backend or of ctx makes of it.
func (a *attempt) closedOr(ctx context.Context, err error) error {
	if backend.Ended(ctx) {
		return backend.ContextError(ctx, err)
	}
	if a.b.isClosing() {
		return backend.ErrClosed
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
	n := newNode(a.b, a.r)
	n.s = s
	l, fresh, sent, err := s.create(ctx, n)
	if err != nil {
		a.b.leave(s)
		return nil, err
	}
	a.queued = time.Now()
	lease, err := a.queue(ctx, s, n, l, fresh, sent)
	if err != nil && !errors.Is(err, errGranted) {
		s.giveUp(ctx, n, err)
		a.b.leave(s)
		return nil, err
	}
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	return lease, nil
}

// giveUp removes n. An attempt that was refused leaves nothing behind when it returns, unless its context ends; one that has
// waited does not wait for that, too.
func (s *session) giveUp(ctx context.Context, n *node, err error) {
	if errors.Is(err, backend.ErrHeld) && !n.echo {
		if rerr := s.remove(ctx, n.path()); rerr == nil || isReply(rerr) {
			return
		}
	}
	s.discard(n)
}

// queue brings n from its place in the queue to its grant.
func (a *attempt) queue(ctx context.Context, s *session, n *node, l listing, fresh bool, sent time.Time) (
	backend.Lease, error,
) {
	for {
		if !fresh {
			var err error
			if l, err = a.list(ctx, s, n); err != nil {
				return nil, err
			}
		}
		fresh = false
		before, found := ahead(l.names, n)
		switch {
		case !found && s.isOver():
			return nil, s.reason()
		case !found:
			return nil, errGone
		case before == nil && a.isRecent(sent):
			return a.grant(ctx, s, n, sent)
		case before == nil:
			// What was read may be old, and this session gone: only a write tells.
			at, err := a.proof(ctx, s, n)
			if err != nil {
				return nil, err
			}
			sent, fresh = at, true
			continue
		case !a.r.Wait:
			return nil, heldError(queueOf(l.names))
		}
		a.answered, a.busy = time.Now(), heldError(before)
		if len(before) > 1 {
			if _, err := a.sleep(ctx, s, n, before); err != nil {
				return nil, err
			}
			continue
		}
		at, next, err := a.lastInLine(ctx, s, n, before, sent)
		if err != nil {
			return nil, err
		}
		if next != nil {
			l, fresh = *next, true
		}
		if at.After(sent) {
			sent = at
		}
	}
}

// isRecent reports whether a lease may count from sent, when a write was sent that proved its node and session. Nobody can
// have removed the node since, as long as the lease lasts, so that a waiter whose turn comes soon needs no other write.
func (a *attempt) isRecent(sent time.Time) bool {
	const share = 8 // of the TTL is lost at most
	return a.answered.IsZero() || time.Since(sent) < min(a.ttl, a.b.guarantees.MaxSilence)/share
}

// ahead returns the places before n's in the queue, and whether its own is there.
func ahead(children []string, n *node) (before []place, found bool) {
	q := queueOf(children)
	for i, p := range q {
		if p.name != n.name {
			continue
		}
		if i == 0 {
			return nil, true
		}
		return q[:i], true
	}
	return nil, false
}

// list reads the queue, again while the ensemble is away for a while.
func (a *attempt) list(ctx context.Context, s *session, n *node) (listing, error) {
	pause := backend.Pause{Min: 20 * time.Millisecond, Max: time.Second}
	for {
		l, err := s.children(ctx, n.dir)
		switch {
		case err == nil:
			return l, nil
		case errors.Is(err, zk.ErrNoNode):
			return listing{}, nil // with the node in it
		case !a.mayGoOn(ctx, s, err):
			return listing{}, err
		}
		if err := a.b.sleep(ctx, pause.Next(0)); err != nil {
			return listing{}, err
		}
	}
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
func (a *attempt) proof(ctx context.Context, s *session, n *node) (time.Time, error) {
	pause := backend.Pause{Min: 20 * time.Millisecond, Max: time.Second}
	for {
		at := time.Now()
		err := s.check(ctx, n.path())
		switch {
		case err == nil:
			return at, nil
		case errors.Is(err, zk.ErrNoNode) && s.isOver():
			return at, s.reason()
		case errors.Is(err, zk.ErrNoNode):
			return at, errGone
		case !a.mayGoOn(ctx, s, err):
			return at, err
		}
		if err := a.b.sleep(ctx, pause.Next(0)); err != nil {
			return at, err
		}
	}
}

// errGranted wraps an error behind which the node is not the attempt's any more.
var errGranted = errors.New("granted")

type grantError struct{ err error }

func (e *grantError) Error() string        { return e.err.Error() }
func (e *grantError) Unwrap() error        { return e.err }
func (e *grantError) Is(target error) bool { return target == errGranted }

// grant begins the lease of n, which is the first in the queue by a write sent at sent.
func (a *attempt) grant(ctx context.Context, s *session, n *node, sent time.Time) (backend.Lease, error) {
	kept := min(a.ttl, a.b.guarantees.MaxSilence)
	n.setLong(a.ttl > kept)
	floor := a.begun
	if !a.answered.IsZero() { // a waiter's lease counts from its last write
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
	if n.czxid.Load() == 0 {
		st, err := s.exists(ctx, n.path())
		if err != nil {
			return nil, lostIf(err)
		}
		n.czxid.Store(uint64(st.Czxid))
	}
	if !s.keep(n) {
		return nil, s.reason()
	}
	life, err := a.b.leases.Grant(ctx, a.r, backend.Grant{Token: n.czxid.Load(), Sent: sent, TTL: a.ttl, Data: n})
	if err != nil {
		s.part(n)
		s.discard(n)
		return nil, &grantError{err}
	}
	return a.b.begin(n, life), nil
}
