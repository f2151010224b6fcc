package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	class time.Duration // the class of its session

	s     *session  // checked out from the first create until the grant or withdraw
	n     *node     // nil without a place in the queue
	sent  time.Time // taken before the latest write that proved n and s was sent
	queue []string  // the container's children, read after n was created; nil if unknown
	ahead []place   // the places that last refused the request, in the order of the queue
	first bool      // no place in front of n conflicts with the request
	busy  bool      // the key was found busy

	missing   bool // the key has no container
	mayRemain bool // a node that this attempt no longer uses may still exist
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
		Try: a.try, Sleep: a.wait, Passing: isTransient, CleanUp: a.withdraw,
		Pause: kit.Pause{Min: 20 * time.Millisecond, Max: time.Second},
	})
}

func newAttempt(b *Backend, r backend.Request) *attempt {
	ttl := b.guarantees.Round(r.TTL)
	return &attempt{b: b, r: r, dir: b.dir(r.Key), ttl: ttl, class: b.limits.sessionTimeout(ttl)}
}

// try acquires the key if it is free. Otherwise a waiter keeps its place in the queue. If the session ends meanwhile,
// try starts again in another session, once.
func (a *attempt) try(ctx context.Context) (l backend.Lease, err error) {
	for range 2 {
		if err = a.checkBusy(ctx); err == nil {
			l, err = a.tryPlace(ctx)
		}
		if err == nil || !endedSession(err) || kit.Ended(ctx) {
			break
		}
	}
	if a.mayRemain && !a.r.Wait && errors.Is(err, backend.ErrHeld) {
		err = errUnconfirmed
	}
	return l, unavailable(ctx, err)
}

// tryPlace acquires the key if no place in front of n conflicts. Otherwise an attempt that does not wait deletes its
// node before it returns ErrHeld. If that fails, withdraw deletes the node in the background.
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

// checkBusy returns ErrHeld if the key is busy and the request does not wait, which costs one read. If there are
// several servers, one of them may not know yet that the key was released. So a second, current read must confirm a
// refusal.
func (a *attempt) checkBusy(ctx context.Context) error {
	if a.r.Wait {
		return nil
	}
	s, err := a.b.checkOutAny(a.class)
	if err != nil {
		return err
	}
	defer a.b.checkIn(s)
	names, err := s.children(ctx, a.dir)
	if err == nil && !a.b.standalone && a.refusedBy(names) != nil {
		names, err = s.currentChildren(ctx, a.dir)
	}
	if a.missing = errors.Is(err, zk.ErrNoNode); a.missing {
		return nil
	}
	if err != nil {
		return err
	}
	return a.refusedBy(names)
}

// refusedBy returns ErrHeld if children refuse a request that does not wait and would queue behind all of them.
func (a *attempt) refusedBy(children []string) error {
	if q := queueOf(children); a.isRefusedBy(q) {
		return heldError(q)
	}
	return nil
}

// isRefusedBy reports whether the places in q refuse a request that does not wait and queues behind them.
func (a *attempt) isRefusedBy(q []place) bool {
	return len(conflicting(q, a.r.Shared)) > 0 && !(a.r.Shared && isUndecided(q))
}

// advance enters the queue unless n is in it, and returns the lease if no place in front of n conflicts.
func (a *attempt) advance(ctx context.Context) (backend.Lease, error) {
	if !a.first && (a.n == nil || !a.n.isOrdered()) {
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

// enterQueue creates a node whose number gives it a place in the queue. The node of a reader may need no such number:
// see lastNumber.
func (a *attempt) enterQueue(ctx context.Context) (err error) {
	if a.s == nil {
		if a.s, err = a.b.checkOut(a.class); err != nil {
			return err
		}
	}
	for {
		if a.n == nil {
			n := newNode(a.s, a.r)
			a.queue, a.sent, err = a.s.create(ctx, n, a.missing)
			a.mayRemain = a.mayRemain || n.mayRemain
			if err != nil {
				return err
			}
			a.n = n
		}
		if a.n.isOrdered() {
			return nil
		}
		if err = a.enterUnordered(ctx); err != nil || a.first {
			return err
		}
	}
}

// checkFirst returns ErrHeld if nodes that conflict with the request are in front of n. A reader that does not wait
// first pauses until exclusive requests that do not wait either have deleted their nodes.
func (a *attempt) checkFirst(ctx context.Context) error {
	pause := kit.Pause{Min: 2 * time.Millisecond, Max: 50 * time.Millisecond}
	for end := time.Now().Add(a.b.options.Timeout); ; {
		names, err := a.readQueue(ctx)
		if err != nil {
			return err
		}
		q := queueOf(names)
		q = q[:a.indexIn(q)]
		ahead := conflicting(q, a.r.Shared)
		if a.first = len(ahead) == 0; a.first {
			return nil
		}
		if a.r.Wait || a.isRefusedBy(q) || time.Now().After(end) {
			return a.refuse(q, ahead)
		}
		if err := kit.Sleep(ctx, pause.Next(0)); err != nil {
			return err
		}
	}
}

// readQueue returns the container's children, which include n. It sends no request if create has just read them.
func (a *attempt) readQueue(ctx context.Context) (names []string, err error) {
	names, a.queue = a.queue, nil
	if names == nil {
		if names, err = a.s.children(ctx, a.dir); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
	}
	if !slices.Contains(names, a.n.name) {
		return nil, a.s.missingNode()
	}
	return names, nil
}

// indexIn returns the index of n in q, which contains n.
func (a *attempt) indexIn(q []place) int {
	return slices.IndexFunc(q, func(p place) bool { return p.name == a.n.name })
}

// refuse records that ahead, of the places in q, refused the request. It returns ErrHeld with the holders in q.
func (a *attempt) refuse(q, ahead []place) error {
	a.ahead, a.busy = ahead, true
	return heldError(q)
}

// isRecent reports whether the lease may count from a.sent. The servers cannot have deleted the node since then,
// because the session outlasts such a lease. So a waiter whose turn comes soon needs no other write.
func (a *attempt) isRecent() bool {
	const share = 8 // the lease loses at most one eighth of its TTL
	silence := a.b.guarantees.MaxSilence
	return !a.busy && a.ttl <= silence || time.Since(a.sent) < min(a.ttl, silence)/share
}

// proveNode proves by a write that n and its session exist.
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
	return cmp.Or(s.endReason(), errDeleted)
}

// grant begins the lease of n. No place in front of n may conflict.
func (a *attempt) grant(ctx context.Context) (backend.Lease, error) {
	// The lease may end no later than the ensemble keeps the session.
	kept, sent := min(a.ttl, a.b.guarantees.MaxSilence), a.sent
	if a.s.contact.keptUntil().Before(backend.Deadline(sent, kept)) {
		now := time.Now()
		if err := a.s.proveUntil(ctx, backend.Deadline(now, kept), a.proveNode); err != nil {
			return nil, err
		}
		sent = earlier(now, a.sent) // a.sent if another request has proved it
	}
	if err := a.s.addNode(a.n); err != nil {
		return nil, err
	}
	life, err := a.b.leases.Grant(ctx, a.r, kit.Grant{Token: a.n.token, Sent: sent, TTL: a.ttl, Data: a.n})
	if err != nil {
		a.s.removeNode(a.n)
		return nil, err
	}
	l := a.b.startLease(a.n, life)
	a.b.checkIn(a.s)
	return l, nil
}

// deleteNode deletes n, and reports whether the server has confirmed that.
func (a *attempt) deleteNode(ctx context.Context) bool {
	if a.n == nil {
		return true
	}
	_, err := a.s.delete(ctx, a.n.path())
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return false
	}
	a.n = nil
	return true
}

// withdraw ends the use of the session, and deletes n in the background. It must not be called after a grant.
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
