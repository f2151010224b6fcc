package lock

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// handoffTime is how long after the store's grant a lease may be handed on: other processes wait meanwhile.
const handoffTime = time.Second

// handoffTrust is how long after a reply of the store a lease may be handed on without a request, where the store does
// not report that somebody has removed it.
const handoffTrust = 10 * time.Millisecond

// keepPause is between attempts to set a minimum hold.
const keepPause = 100 * time.Millisecond

func (l *Locker) newHold(g *gate, lease backend.Lease, owner string, ttl time.Duration) *hold {
	h := &hold{locker: l, gate: g, lease: lease, owner: owner, granted: time.Now(), ttl: ttl, left: true}
	h.renewal.Item = h
	h.watch()
	return h
}

// watch arranges for the call of lose, which may still come after the hold has ended.
func (h *hold) watch() {
	if lease, ok := h.lease.(backend.LossNotifier); ok {
		lease.OnLost(h.lose)
		return
	}
	h.gone = make(chan struct{})
	go func() { // a stranger's lease that cannot call back
		select {
		case <-h.lease.Lost():
			h.lose()
		case <-h.gone:
		}
	}()
}

// lose ends the tenure, if there is one, because the store's lease has ended.
func (h *hold) lose() {
	h.mu.Lock()
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
	h.tenure = nil
	h.mu.Unlock()
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
func (l *Locker) begin(h *hold, terms *settings) *Lease {
	t, age := &h.first, time.Duration(0)
	if h.handoffs > 0 {
		t, age = new(tenure), h.age()
	}
	now := h.granted.Add(age)
	t.hold, t.count, t.since, t.minHold = h, 1, age, terms.minHold
	if token := h.lease.Token(); token != 0 { // 0: the store has none to give
		t.token = (token+l.defaults.base)<<handoffBits | uint64(h.handoffs)
	}
	lease := &t.first
	lease.tenure, lease.handed = t, h.handoffs > 0
	h.gate.inside.Store(t) // first: a loss may let the next one in as soon as h knows of t
	h.mu.Lock()
	left := h.lease.Deadline().Sub(now)
	if h.lost || left <= 0 {
		h.mu.Unlock()
		h.gate.inside.Store(nil)
		return nil
	}
	h.tenure = t
	h.until = 0
	if terms.maxHold > 0 {
		h.until = age + min(terms.maxHold, math.MaxInt64-age)
	}
	h.mu.Unlock()
	if !terms.manual {
		l.renewals.add(h, now, left)
	}
	return lease
}

// giveUp hands h to the next local waiter, or releases it and lets the next one contend. The error is the release's.
func (l *Locker) giveUp(ctx context.Context, h *hold) error {
	if l.handOn(h) {
		return nil
	}
	l.end(h)
	defer l.leave(h.gate)
	return h.lease.Release(ctx)
}

// handOn gives a live lease to the next local waiter. It reports false if there is none, or the store should decide who
// comes next.
func (l *Locker) handOn(h *hold) bool {
	h.mu.Lock()
	lost, current := h.lost, h.ttl
	h.mu.Unlock()
	terms := l.nextTerms(h.gate)
	if terms == nil || h.named || terms.owner != "" || int(h.handoffs) >= l.defaults.handoff || lost || h.age() >= handoffTime {
		return false
	}
	l.renewals.remove(h)
	if h.taken.Load() > 0 {
		return false // what is on its way to the store was on this holder's terms, and may come after the next one's
	}
	ttl := terms.leaseTTL()
	// The next holder gets what it asked for: its own TTL, all of it if nobody will renew it.
	unsure := !l.guarantees.ReportsLoss && h.age()-h.replied > handoffTrust
	if unsure || ttl != current || terms.manual || time.Until(h.lease.Deadline()) < l.effective(ttl)/2 {
		if !l.renewFor(h, ttl) {
			return false
		}
	}
	h.mu.Lock()
	h.tenure = nil
	h.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	next := h.gate.nextLocked()
	if next == nil || isClosed(l.stopping) {
		return false
	}
	if t := next.terms; t.leaseTTL() != ttl || t.manual != terms.manual || t.owner != "" {
		return false // another waiter than the one it was renewed for
	}
	h.handoffs++
	h.gate.inside.Store(nil)
	l.callNextLocked(h.gate, h)
	return true
}

// nextTerms are those of the waiter that comes next, nil if nothing can be handed on.
func (l *Locker) nextTerms(g *gate) *settings {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := g.nextLocked()
	if next == nil || isClosed(l.stopping) {
		return nil
	}
	return next.terms
}

// renewFor renews h before it is handed on.
func (l *Locker) renewFor(h *hold, ttl time.Duration) bool {
	ctx, cancel := context.WithDeadline(context.Background(), h.granted.Add(handoffTime))
	defer cancel()
	if err := h.lease.Renew(ctx, ttl); err != nil {
		return false
	}
	h.replied = h.age()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ttl = ttl
	return true
}

// lasting returns the TTL of a lease whose deadline is at least d away: some stores free the key at the deadline, a
// margin before the TTL. The store may not grant that much. Then lasting returns the longest TTL.
func (l *Locker) lasting(d time.Duration) time.Duration {
	d += backend.Margin(0)
	most := backend.MaxTTL
	if bound := l.guarantees.MaxTTL; bound > 0 {
		most = min(most, bound)
	}
	return min(d+d/99+1, most)
}

// keep leaves the key taken for at least d more and lets the next local waiter queue at the store.
func (l *Locker) keep(ctx context.Context, h *hold, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handoffTime)
	defer cancel()
	l.renewals.remove(h)
	var err error
	for again := true; again; {
		overlaps := h.taken.Load() > 0 // with a renewal to the TTL, which may come after this one
		err = h.lease.Renew(ctx, l.lasting(d))
		again = (err == nil && overlaps || err != nil && !errors.Is(err, ErrLost) && !kit.Definite(err)) &&
			kit.Sleep(ctx, keepPause) == nil
	}
	l.end(h)
	l.leave(h.gate)
	if errors.Is(err, ErrLost) || errors.Is(err, ErrClosed) {
		return err
	}
	if err != nil {
		l.defaults.logger.Warn("min hold: could not set what is left, the ttl stands", "key", h.gate.key, "backend", l.name,
			"owner", h.owner, "error", err)
	}
	return nil
}
