package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// A worker acquires, holds and ends leases, by random choices, and records its calls in a history.
type worker struct {
	h      *history
	id     int
	client int // determines which faults affect it: see faultRecord
	actor  actor
	random dice
	keys   workKeys

	until          time.Time       // when the worker stops
	faulty         bool            // requests may fail, with unknown outcome
	tries          bool            // it never waits
	expires        bool            // TTLs are short, and some leases are left to expire
	shares         bool            // most leases are shared
	abandonedUntil time.Time       // until when the store may keep its abandoned shared lease: see mayLast
	processKilled  <-chan struct{} // closed when its process has been killed; nil if it has none
}

// workKeys are the keys that workers compete for. Attempts that do not wait have a key of their own: a store may refuse
// a key that others wait for, although nobody holds it.
type workKeys struct{ waited, tried string }

// An actor makes requests, by a client of this process or in another process.
type actor interface {
	acquire(ctx context.Context, r backend.Request) (holding, error)
}

// A holding is the part of a backend.Lease that a worker needs.
type holding interface {
	Token() uint64
	Deadline() time.Time
	Renew(ctx context.Context, ttl time.Duration) error
	Release(ctx context.Context) error
}

// A worked lease is one that a worker holds, and its record.
type worked struct {
	holding
	*leaseRecord
}

// run works until the time given.
func (w *worker) run(until time.Time) {
	const most = 60 // number of steps: porcupine must check them all
	w.until = until
	for n := 0; n < most && time.Now().Before(until) && !w.isDone(); n++ {
		w.step()
		w.pause(w.h.t.short() / 12)
	}
}

func (w *worker) failf(format string, args ...any) {
	w.h.failf("worker %d: "+format, append([]any{w.id}, args...)...)
}

// isDone reports whether the worker has nothing left to do.
func (w *worker) isDone() bool {
	select {
	case <-w.processKilled:
		return true
	default:
		return w.h.t.ended()
	}
}

func (w *worker) pause(most time.Duration) {
	const longest = 150 * time.Millisecond // where TTLs are long
	time.Sleep(w.random.upTo(min(most, longest)) + 1)
}

// busy returns how long a lease is held at a time.
func (w *worker) busy() time.Duration {
	if !w.expires {
		return 2 * tick
	}
	return w.h.t.short() / 4
}

func (w *worker) step() {
	t := w.h.t
	wait := !w.tries && w.random.IntN(2) == 0
	key, ttl := w.keys.tried, t.long()
	if wait {
		key = w.keys.waited
	}
	if w.expires {
		ttl = t.g.Round(t.short() + w.random.upTo(t.short()/2))
	}
	l, ok := w.acquire(backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl, Wait: wait,
		Shared: w.shares && w.random.IntN(3) > 0})
	if !ok {
		return
	}
	choices := []func(worked){w.release, w.release, w.release, w.renewThenRelease, w.renewThenRelease,
		w.renewBesideRelease}
	if w.expires && w.mayLast(ttl) {
		choices = append(choices, w.expire, w.expire, w.expire, w.leave, w.leave, w.renewThenLeave)
	}
	w.pause(w.busy())
	choices[w.random.IntN(len(choices))](l)
}

// mayLast reports whether a lease may be left to expire. It returns false if too little time would remain for others,
// and more often if TTLs are long. A shared lease does not stop its worker from acquiring the next one, so a worker
// abandons only one at a time.
func (w *worker) mayLast(ttl time.Duration) bool {
	const brief = time.Second
	if time.Until(w.until) < ttl || time.Now().Before(w.abandonedUntil) {
		return false
	}
	return w.random.upTo(max(ttl, brief)) < brief
}

// acquire makes the request and records how it ended.
func (w *worker) acquire(r backend.Request) (worked, bool) {
	t, ctx := w.h.t, w.h.t.ctx
	limit := 2 * r.TTL
	if r.Wait {
		limit = 4 * r.TTL
	}
	if w.faulty {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	begun := time.Now()
	l, err := w.actor.acquire(ctx, r)
	returned := time.Now()
	if err == nil {
		return worked{l, w.h.lease(&leaseRecord{
			worker: w.id, client: w.client, key: r.Key, owner: r.Owner, shared: r.Shared, token: l.Token(), asked: w.h.at(begun),
			granted: w.h.at(returned), ttl: r.TTL,
			deadline: w.h.at(l.Deadline()), end: endAbandoned,
		}).watched(w.h, l)}, true
	}
	held := errors.Is(err, backend.ErrHeld)
	refused := held && !r.Wait
	switch {
	case w.isDone():
	case held && r.Wait && !kit.Ended(ctx):
		w.failf("an Acquire that waits: %v", err)
	case refused || w.faulty:
	case errors.Is(err, backend.ErrLost) && returned.Sub(begun) > t.g.Round(r.TTL)/2:
		// granted, but expired when the reply arrived
	default:
		if r.Wait {
			t.unavailable(err, begun)
		} else {
			t.lateOnTimeout(err, begun)
		}
		w.failf("Acquire: %v", err)
	}
	if w.faulty && t.overdue(returned.Sub(begun), limit) {
		w.failf("Acquire returned %v after its context had ended: %v", returned.Sub(begun)-limit, err)
	}
	w.h.attempt(attemptRecord{worker: w.id, client: w.client, key: r.Key, owner: r.Owner, shared: r.Shared,
		ttl: r.TTL, wait: r.Wait,
		called: w.h.at(begun), returned: w.h.at(returned), refused: refused})
	return worked{}, false
}

// watched records when the holder, if it is in this process, learns before the deadline that l is lost.
func (r *leaseRecord) watched(h *history, l holding) *leaseRecord {
	if lease, ok := l.(backend.Lease); ok {
		h.t.spawn(func() {
			select {
			case <-lease.Lost():
				h.change(func() {
					if now := h.now(); now < h.at(lease.Deadline()) {
						r.lostAt = now
					}
				})
			case <-h.t.ctx.Done():
			}
		})
	}
	return r
}

func (w *worker) release(l worked) {
	called := w.h.now()
	err := l.Release(w.h.t.ctx)
	over := w.h.now()
	w.h.change(func() {
		switch {
		case err == nil:
			l.end, l.releaseCalled, l.releaseReturned = endReleased, called, over
		case called < l.deadline:
			l.end, l.releaseCalled, l.releaseReturned = endUnsure, called, over
		}
	})
	switch {
	case err == nil || w.faulty || w.isDone():
	case !errors.Is(err, backend.ErrLost):
		w.h.t.lateOnTimeout(err, w.h.begun.Add(called))
		w.failf("Release: %v", err)
	case over < w.h.at(l.Deadline()):
		w.failf("Release, %v before the deadline of a lease that nobody ended: %v", w.h.at(l.Deadline())-over, err)
	}
}

// renew renews l, and reports whether that succeeded.
func (w *worker) renew(l worked) bool {
	ttl, called := l.ttl, w.h.now()
	if w.expires {
		ttl = w.h.t.g.Round(w.h.t.short() + w.random.upTo(w.h.t.short()/2))
	}
	ctx, cancel := context.WithTimeout(w.h.t.ctx, ttl)
	defer cancel()
	err := l.Renew(ctx, ttl)
	w.h.change(func() {
		l.renewals = append(l.renewals, renewalRecord{called, w.h.now(), ttl, err == nil})
		l.deadline = w.h.at(l.Deadline())
	})
	if err != nil && !w.faulty && !errors.Is(err, backend.ErrLost) && !w.isDone() {
		w.h.t.lateOnTimeout(err, w.h.begun.Add(called))
		w.failf("Renew: %v", err)
	}
	return err == nil
}

func (w *worker) renewThenRelease(l worked) {
	for range 1 + w.random.IntN(2) {
		if !w.renew(l) {
			break
		}
		w.pause(w.busy())
	}
	w.release(l)
}

// renewBesideRelease renews and releases l at the same time. The renewal may come first, or fail because l is released.
func (w *worker) renewBesideRelease(l worked) {
	renewed := make(chan struct{})
	called := w.h.now()
	w.h.t.spawn(func() {
		defer close(renewed)
		err := l.Renew(w.h.t.ctx, l.ttl)
		w.h.change(func() {
			l.renewals = append(l.renewals, renewalRecord{called, w.h.now(), l.ttl, err == nil})
			l.deadline = max(l.deadline, w.h.at(l.Deadline()))
		})
	})
	w.release(l)
	<-renewed
}

// leave abandons l, which expires while its former holder continues.
func (w *worker) leave(l worked) {
	if l.shared {
		w.abandonedUntil = l.Deadline().Add(keeps(w.h.t.g, l.ttl))
	}
}

func (w *worker) renewThenLeave(l worked) {
	w.renew(l)
	w.leave(l)
}

// expire waits until l has expired, and then makes requests that must have no effect.
func (w *worker) expire(l worked) {
	time.Sleep(time.Until(l.Deadline()))
	w.pause(w.h.t.short() / 2)
	if w.random.IntN(2) == 0 {
		w.renew(l)
	}
	w.release(l)
}

// A clientActor makes requests by a client of this process.
type clientActor struct {
	t      *trial
	client backend.Backend
}

func (a clientActor) acquire(ctx context.Context, r backend.Request) (holding, error) {
	before := time.Now()
	l, err := a.client.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	g := &grant{Lease: l, key: r.Key, owner: r.Owner, ttl: r.TTL, before: before, after: time.Now(), shared: r.Shared}
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	a.t.grants = append(a.t.grants, g)
	return g, nil
}
