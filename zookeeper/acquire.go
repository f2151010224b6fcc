package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// An attempt is one call of Acquire. While it waits, it keeps its node in the queue of the key.
type attempt struct {
	b     *Backend
	r     backend.Request
	dir   string        // the key's container
	ttl   time.Duration // as it will be granted
	class time.Duration // of its session
	begun time.Time

	s     *session  // in use from the first request of a place in the queue to the end of the attempt
	n     *node     // nil without a place in the queue
	sent  time.Time // before the latest write that proved n and s
	queue []string  // the container's children, read after n was created; nil if unknown
	ahead []place   // those in front of n when the key was last found busy
	first bool      // n is the first in the queue
	busy  bool      // the key was found busy

	missing   bool // the key has no container
	exhausted bool // the container has no sequence numbers left
	mayRemain bool // a node of this attempt may still exist although it was given up
}

// errUnconfirmed reports a refused attempt whose node may still exist. As long as that node exists, it refuses
// everybody else, so ErrHeld is returned only after the server has confirmed that the node is deleted, or was never
// created.
var errUnconfirmed = fmt.Errorf("%w: the key is held, and zookeeper has not confirmed that the node of this request"+
	" is deleted", backend.ErrUnavailable)

// Acquire implements [backend.Backend].
func (b *Backend) Acquire(ctx context.Context, r backend.Request) (backend.Lease, error) {
	a := newAttempt(b, r)
	return b.leases.Acquire(ctx, r, kit.Waiter{
		Try: a.try, Sleep: a.wait, Passing: passing, CleanUp: a.withdraw,
		Pause: kit.Pause{Min: 20 * time.Millisecond, Max: time.Second},
	})
}

func newAttempt(b *Backend, r backend.Request) *attempt {
	ttl := b.guarantees.Round(r.TTL)
	return &attempt{
		b: b, r: r, dir: b.dir(r.Key), ttl: ttl, class: b.limits.sessionTimeout(ttl), begun: time.Now(),
	}
}

// try acquires the key if it is free. A waiter keeps its place in the queue otherwise. If the session ends meanwhile,
// try starts again in another session, once.
func (a *attempt) try(ctx context.Context) (l backend.Lease, err error) {
	for range 2 {
		if l, err = a.tryOnce(ctx); err == nil || !endedSession(err) || kit.Ended(ctx) {
			break
		}
	}
	if a.mayRemain && !a.r.Wait && errors.Is(err, backend.ErrHeld) {
		err = errUnconfirmed
	}
	return l, unavailable(ctx, err)
}

func (a *attempt) tryOnce(ctx context.Context) (backend.Lease, error) {
	if !a.r.Wait {
		if err := a.checkBusy(ctx); err != nil {
			return nil, err
		}
	}
	return a.tryPlace(ctx)
}

// tryPlace acquires the key if n is first in the queue. An attempt that does not wait leaves the queue otherwise, and
// returns ErrHeld only when its node is deleted, if possible.
func (a *attempt) tryPlace(ctx context.Context) (backend.Lease, error) {
	if a.s != nil && a.s.hasEnded() {
		a.withdraw()
	}
	l, err := a.advance(ctx)
	if err != nil && !a.r.Wait {
		if errors.Is(err, backend.ErrHeld) {
			a.deleteNode(ctx)
		}
		a.withdraw()
	}
	return l, err
}

// checkBusy returns ErrHeld if the key is busy, which costs one read. One of several servers may not know yet that the
// key was released, so its answer is checked by a current read.
func (a *attempt) checkBusy(ctx context.Context) error {
	s, err := a.b.checkOutAny(a.class)
	if err != nil {
		return err
	}
	defer a.b.checkIn(s)
	names, err := s.children(ctx, a.dir)
	if err == nil && !a.b.standalone && len(queueOf(names)) > 0 {
		names, err = s.currentChildren(ctx, a.dir)
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

// advance enters the queue unless n is in it, and returns the lease if n is first.
func (a *attempt) advance(ctx context.Context) (backend.Lease, error) {
	if a.n == nil {
		if err := a.enterQueue(ctx); err != nil {
			return nil, err
		}
	}
	if !a.first {
		if err := a.checkFirst(ctx); err != nil {
			return nil, err
		}
	}
	if !a.isRecent() {
		if err := a.proveNode(ctx); err != nil {
			return nil, err
		}
	}
	return a.grant(ctx)
}

// enterQueue creates a node whose number gives it a place in the queue.
func (a *attempt) enterQueue(ctx context.Context) (err error) {
	if a.s == nil {
		if a.s, err = a.b.checkOut(a.class); err != nil {
			return err
		}
	}
	for {
		if a.exhausted {
			if err = a.deleteContainer(ctx); err != nil {
				return err
			}
		}
		n := newNode(a.s, a.r)
		a.queue, a.sent, err = a.s.create(ctx, n, a.missing)
		a.mayRemain = a.mayRemain || n.mayRemain
		if err != nil {
			return err
		}
		a.n = n
		if isOrdered(n.number) {
			return nil
		}
		a.exhausted = true
		if !a.deleteNode(ctx) {
			a.withdraw()
			return errUnconfirmed
		}
	}
}

// checkFirst returns ErrHeld if other nodes are in front of n. It reads the queue unless create has just done so.
func (a *attempt) checkFirst(ctx context.Context) (err error) {
	names := a.queue
	if a.queue = nil; names == nil {
		if names, err = a.s.children(ctx, a.dir); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	q := queueOf(names)
	i := slices.IndexFunc(q, func(p place) bool { return p.name == a.n.name })
	switch {
	case i < 0:
		return a.s.missingNode()
	case i > 0:
		a.ahead, a.busy = q[:i], true
		return heldError(a.ahead)
	}
	a.first = true
	return nil
}

// isRecent reports whether a lease may count from a.sent. Nobody can have removed the node since then, as long as the
// lease lasts, so a waiter whose turn comes soon needs no other write.
func (a *attempt) isRecent() bool {
	const share = 8 // of the TTL is lost at most
	return !a.countsFromWrite() || time.Since(a.sent) < min(a.ttl, a.b.guarantees.MaxSilence)/share
}

// countsFromWrite reports whether the lease counts from its last write, and not from the start of the attempt. A
// waiter's lease does, and so does a lease that the session keeps only for MaxSilence.
func (a *attempt) countsFromWrite() bool { return a.busy || a.ttl > a.b.guarantees.MaxSilence }

// proveNode makes sure by a write that n and its session exist.
func (a *attempt) proveNode(ctx context.Context) error {
	sent := time.Now()
	err := a.s.check(ctx, a.n.path())
	switch {
	case err == nil:
		a.sent = sent
	case errors.Is(err, zk.ErrNoNode):
		return a.s.missingNode()
	}
	return err
}

// missingNode returns the reason why a node of this session no longer exists.
func (s *session) missingNode() error {
	if s.hasEnded() {
		return s.endReason()
	}
	return errDeleted
}

// grant begins the lease of n, which is first in the queue.
func (a *attempt) grant(ctx context.Context) (backend.Lease, error) {
	kept := min(a.ttl, a.b.guarantees.MaxSilence)
	floor := a.begun
	if a.countsFromWrite() {
		floor = a.sent
	}
	if a.s.contact.keptUntil().Before(backend.Deadline(floor, kept)) {
		if err := a.s.proveUntil(ctx, backend.Deadline(time.Now(), kept), a.proveNode); err != nil {
			return nil, err
		}
	}
	// The lease may end no later than the ensemble keeps the session.
	sent := a.sent
	if latest := a.s.contact.keptUntil().Add(backend.Margin(kept) - kept); latest.Before(sent) {
		sent = latest
	}
	if err := a.s.addNode(a.n); err != nil {
		return nil, err
	}
	life, err := a.b.leases.Grant(ctx, a.r, kit.Grant{Token: a.n.token, Sent: sent, TTL: a.ttl, Data: a.n})
	if err != nil {
		a.s.removeNode(a.n)
		return nil, err
	}
	l := a.b.begin(a.n, life)
	a.b.checkIn(a.s)
	return l, nil
}

// deleteNode deletes n, and reports whether the server has confirmed that.
func (a *attempt) deleteNode(ctx context.Context) bool {
	if a.n == nil {
		return true
	}
	path := a.n.path() // the request may outlive this call
	_, _, err := ask(ctx, a.s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(path, -1) })
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return false
	}
	a.n = nil
	return true
}

// withdraw ends the use of the session, and deletes n in the background. It does nothing after a grant.
func (a *attempt) withdraw() {
	if a.s == nil {
		return
	}
	if a.n != nil {
		a.s.deleteLater(&pendingDelete{dir: a.dir, name: a.n.name})
		a.mayRemain = a.mayRemain || !errors.Is(a.s.endReason(), errExpired)
	}
	a.b.checkIn(a.s)
	a.s, a.n, a.queue, a.first = nil, nil, nil, false
}

// The server numbers the children of a container with a counter of 31 bits. The counter does not wrap around:
// DataTree.createNode only raises it, so it stays at 2147483647, and all later children have that number (or a
// negative number while requests are in flight). Such numbers give no order. A node with a number above lastNumber is
// therefore never a place in the queue: its attempt deletes it, waits until the container is empty, and deletes the
// container. The next container counts from 0.
const lastNumber = math.MaxInt32 - 1<<20

func isOrdered(number int32) bool { return number >= 0 && number <= lastNumber }

// deleteContainer deletes the key's container, whose numbers are used up, once it is empty. It returns ErrHeld if
// somebody holds the key.
func (a *attempt) deleteContainer(ctx context.Context) error {
	pause := kit.Pause{Min: 5 * time.Millisecond, Max: 250 * time.Millisecond}
	usedUp := fmt.Errorf("%w: the sequence numbers of %s are used up: delete its children, then this node",
		backend.ErrUnavailable, a.dir)
	for end := time.Now().Add(a.b.options.Timeout); ; {
		_, _, err := ask(ctx, a.s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(a.dir, -1) })
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode):
			a.missing, a.exhausted, a.begun = true, false, time.Now()
			return nil
		case !errors.Is(err, zk.ErrNotEmpty):
			return fmt.Errorf("%w: %w", usedUp, err)
		}
		names, err := a.s.currentChildren(ctx, a.dir)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if q := queueOf(names); len(q) > 0 {
			a.ahead, a.busy = q, true
			return heldError(q)
		}
		if !a.r.Wait && time.Now().After(end) {
			return usedUp
		}
		if err := kit.Sleep(ctx, pause.Next(0)); err != nil {
			return err
		}
	}
}
