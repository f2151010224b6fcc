package lock

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
)

// newTenure returns a tenure on a lease that the store has granted just now. The error means that the store's number is
// too large for a token.
func (l *Locker) newTenure(g *gate, lease backend.Lease, owner string, ttl time.Duration) (*tenure, error) {
	number, err := driver.AddTokenBase(lease.Token(), l.defaults.tokenBase)
	if err != nil {
		return nil, err
	}
	t := &tenure{
		grant: grant{locker: l, gate: g, lease: lease, owner: owner, granted: time.Now()},
		token: number << handoffBits, ttl: ttl,
	}
	t.watch()
	return t, nil
}

// successor returns a tenure for the next holder of t's lease.
func (t *tenure) successor() *tenure {
	next := &tenure{grant: t.grant, handoffs: t.handoffs + 1, confirmedAge: t.confirmedAge, ttl: t.ttl}
	if t.token != 0 { // 0: the store has none
		next.token = t.token + 1
	}
	return next
}

// watch arranges for lose to be called when the store's lease ends. The call may come after the process has given the
// lease up.
func (t *tenure) watch() {
	if lease, ok := t.lease.(backend.LossNotifier); ok {
		lease.OnLost(t.lose)
		return
	}
	t.ended = make(chan struct{})
	go func() { // a third-party lease without callbacks
		select {
		case <-t.lease.Lost():
			t.lose()
		case <-t.ended:
		}
	}()
}

// begin makes the caller the holder. It returns nil if the lease has ended meanwhile.
func (t *tenure) begin(terms *settings) *Lease {
	if t.handoffs > 0 {
		t.startAge = t.age()
	}
	now := t.granted.Add(t.startAge)
	t.minHold = terms.minHold
	t.first.tenure, t.renewal.Item = t, t
	t.releaseDone.L = &t.mu
	t.gate.inside.Store(t) // before the tenure is held, because its loss may let the next goroutine in at once
	t.mu.Lock()
	left := t.lease.Deadline().Sub(now)
	if t.phase == lost || left <= 0 {
		t.mu.Unlock()
		t.gate.inside.Store(nil)
		return nil
	}
	t.phase, t.handles = held, 1
	t.maxAge = t.startAge + min(cmp.Or(terms.maxHold, forever), forever-t.startAge)
	t.mu.Unlock()
	if !terms.noRenewal {
		t.renewed.Store(true)
		t.locker.renewals.schedule(t, now, left)
	}
	return &t.first
}

// lose ends the tenure because the store's lease has ended. It lets the next goroutine pass the gate, because the
// holder may hang forever.
func (t *tenure) lose() {
	t.locker.renewals.remove(t)
	t.mu.Lock()
	before, next := t.phase, t.next
	t.phase = lost
	if before != held {
		t.mu.Unlock()
		if next != nil {
			next.lose()
		}
		return
	}
	t.cause, t.end = t.locker.lossReason(), t.lease.Deadline()
	if t.lost != nil {
		close(t.lost)
	}
	err := t.error("hold", t.cause)
	t.cancelLocked(nil, err) // under the lock: once a call has reported the loss, the lease's contexts have ended
	t.mu.Unlock()
	t.locker.leave(t.gate, nil)
	held := t.held()
	t.traceEnd(context.Background(), held, err)
	if t.locker.defaults.logger.Enabled(context.Background(), slog.LevelWarn) {
		// A logger that blocks must not delay the notification of other holders.
		go t.warn("lease lost", "token", t.token, "shared", t.gate.shared, "held", held)
	}
}

// stop ends the watch over the lease and its renewal. Whoever gives the lease up calls stop once.
func (t *tenure) stop() {
	if t.ended != nil {
		close(t.ended)
	}
	t.locker.renewals.remove(t)
}

// discard gives up a lease that has ended.
func (t *tenure) discard(ctx context.Context) {
	t.stop()
	_ = t.lease.Release(ctx) // the lease has ended: this only cleans up
}

// cancelLocked ends the contexts of l, or of every handle if l is nil.
func (t *tenure) cancelLocked(l *Lease, cause error) {
	for c := range t.derived {
		if l == nil || c.lease == l {
			c.detach()
			c.cancel(cause)
			delete(t.derived, c)
		}
	}
}

// held returns how long the tenure has lasted.
func (t *tenure) held() time.Duration { return t.age() - t.startAge }

func (t *tenure) deadline() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(t.end, t.lease.Deadline())
}

// traceEnd reports to the Tracer how t has ended, if the Tracer is a LeaseTracer.
func (t *tenure) traceEnd(ctx context.Context, held time.Duration, err error) {
	if tracer, ok := t.locker.defaults.tracer.(LeaseTracer); ok {
		tracer.TraceLeaseEnd(ctx, LeaseEnd{
			Backend: t.locker.name, Key: t.gate.key, Owner: t.owner, Token: t.token, Shared: t.gate.shared,
			Held: held, Lost: isLoss(err), Err: err,
		})
	}
}
