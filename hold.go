package lock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/alarm"
)

// handoffTime is how long after the store's grant a lease may be handed on: other processes wait meanwhile.
const handoffTime = time.Second

// keepPause is between attempts to set a minimum hold.
const keepPause = 100 * time.Millisecond

// A hold is one lease of the store. It passes from tenure to tenure, of one local holder each.
type hold struct {
	locker   *Locker
	lease    backend.Lease
	owner    string
	granted  time.Time
	handoffs int           // how often it was handed on; only the one inside the gate touches it
	stop     func() bool   // ends the watch for its loss
	gone     chan struct{} // closed when the hold has ended, one way or the other; nil where nobody waits for that

	mu     sync.Mutex
	tenure *tenure // who holds it, nil on its way from hand to hand
	lost   bool
	ended  bool
	ttl    time.Duration // to renew to
	until  time.Time     // renew no further; zero means for ever

	// Guarded by renewer.mu.
	renewal alarm.Entry[*hold] // when to renew
	left    bool               // must not come back to be renewed
}

func (l *Locker) newHold(lease backend.Lease, owner string, ttl time.Duration) *hold {
	h := &hold{
		locker: l, lease: lease, owner: owner, granted: time.Now(), ttl: ttl, left: true,
	}
	h.renewal.Item = h
	if n, ok := lease.(backend.LossNotifier); ok {
		h.stop = n.OnLost(h.lose)
		return h
	}
	h.stop = func() bool { return true }
	h.gone = make(chan struct{})
	go func() { // a stranger's lease that cannot call back
		select {
		case <-lease.Lost():
			h.lose()
		case <-h.gone:
		}
	}()
	return h
}

// lose ends the tenure because the store's lease has ended.
func (h *hold) lose() {
	h.mu.Lock()
	if h.ended || h.lost {
		h.mu.Unlock()
		return
	}
	h.lost = true
	t := h.tenure
	h.mu.Unlock()
	h.locker.renewals.remove(h)
	if t != nil {
		t.lose()
	}
}

// end is called once by the one that parts with the hold.
func (l *Locker) end(h *hold) {
	h.mu.Lock()
	h.ended = true
	h.tenure = nil
	h.mu.Unlock()
	h.stop()
	if h.gone != nil {
		close(h.gone)
	}
	l.renewals.remove(h)
}

// discard ends a hold that has been lost.
func (l *Locker) discard(ctx context.Context, h *hold) {
	l.end(h)
	_ = h.lease.Release(ctx) // it is over: this only tidies up
}

// begin starts a tenure on h. It returns nil if h has been lost meanwhile.
func (l *Locker) begin(ctx context.Context, g *gate, h *hold, terms settings) *Lease {
	now := time.Now()
	t := &tenure{
		locker: l, gate: g, hold: h, count: 1, since: now, minHold: terms.minHold,
		token: h.lease.Token()<<handoffBits | uint64(h.handoffs),
	}
	if h.lease.Token() == 0 {
		t.token = 0 // the store has none to give
	}
	lease := newLease(ctx, t)
	l.setInside(g, t) // first: a loss may let the next one in as soon as h knows of t
	h.mu.Lock()
	if h.lost || !now.Before(h.lease.Deadline()) {
		h.mu.Unlock()
		l.setInside(g, nil)
		return nil
	}
	h.tenure = t
	h.until = time.Time{}
	if terms.maxHold > 0 {
		h.until = now.Add(terms.maxHold)
	}
	h.mu.Unlock()
	if !terms.manual {
		l.renewals.add(h)
	}
	return lease
}

// giveUp hands h to the next local waiter, or releases it and lets the next one contend. The error is the release's.
func (l *Locker) giveUp(ctx context.Context, g *gate, h *hold) error {
	if l.handOn(g, h) {
		return nil
	}
	l.end(h)
	defer l.leave(g)
	return h.lease.Release(ctx)
}

// handOn gives a live lease to the next local waiter. It reports false if there is none, or the store should decide who
// comes next.
func (l *Locker) handOn(g *gate, h *hold) bool {
	l.renewals.remove(h)
	terms, ok := l.nextTerms(g)
	if !ok || h.isLost() || h.handoffs >= l.defaults.handoff || time.Since(h.granted) >= handoffTime {
		return false
	}
	ttl := terms.leaseTTL()
	// The next holder gets what it asked for: its own TTL, all of it if nobody will renew it.
	if ttl != h.currentTTL() || terms.manual || time.Until(h.lease.Deadline()) < l.effective(ttl)/2 {
		if !l.renewFor(h, ttl) {
			return false
		}
	}
	h.mu.Lock()
	h.tenure = nil
	h.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	next := g.waiters.Front()
	if next == nil || l.closed {
		return false
	}
	if t := next.Value.(*waiter).terms; t.leaseTTL() != ttl || t.manual != terms.manual {
		return false // another waiter than the one it was renewed for
	}
	h.handoffs++
	g.inside = nil
	l.callNextLocked(g, turn{handed: h})
	return true
}

func (l *Locker) nextTerms(g *gate) (terms settings, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := g.waiters.Front()
	if next == nil || l.closed {
		return settings{}, false
	}
	return next.Value.(*waiter).terms, true
}

// renewFor renews h before it is handed on.
func (l *Locker) renewFor(h *hold, ttl time.Duration) bool {
	ctx, cancel := context.WithDeadline(context.Background(), h.granted.Add(handoffTime))
	defer cancel()
	if err := h.lease.Renew(ctx, ttl); err != nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ttl = ttl
	return true
}

func (h *hold) isLost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

func (h *hold) currentTTL() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ttl
}

// keep leaves the key taken for d more and lets the next local waiter queue at the store.
func (l *Locker) keep(ctx context.Context, g *gate, h *hold, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handoffTime)
	defer cancel()
	l.renewals.remove(h)
	var err error
	for again := true; again; {
		err = h.lease.Renew(ctx, d)
		again = err != nil && !errors.Is(err, ErrLost) && !backend.Definite(err) && backend.Sleep(ctx, keepPause) == nil
	}
	l.end(h)
	l.leave(g)
	if errors.Is(err, ErrLost) || errors.Is(err, ErrClosed) {
		return err
	}
	if err != nil {
		l.defaults.logger.Warn("min hold: could not set what is left, the ttl stands", "key", g.key, "backend", l.name,
			"owner", h.owner, "error", err)
	}
	return nil
}
