package lock

import (
	"context"
	"log/slog"
	"time"
)

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

func (t *tenure) isHeld() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.over
}

// held is for how long it has been.
func (t *tenure) held() time.Duration { return t.hold.age() - t.since }

func (t *tenure) deadline() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return t.end
	}
	return t.hold.lease.Deadline()
}

func (t *tenure) holder() Holder {
	return Holder{Owner: t.hold.owner, Token: t.token, TTL: max(0, time.Until(t.deadline())), Waiters: -1}
}

// lose ends the tenure because its lease has ended, and lets the next one pass the gate: its holder may hang for ever.
func (t *tenure) lose() {
	t.mu.Lock()
	if t.over {
		t.mu.Unlock()
		return
	}
	h := t.hold
	t.over, t.why = true, h.locker.endedErr()
	t.end = h.lease.Deadline()
	if t.lost != nil {
		close(t.lost)
	}
	err := t.lostErr()
	t.cancelLocked(nil, err) // locked: once a call has reported the loss, the lease's contexts have ended
	t.mu.Unlock()
	h.locker.leave(h.gate)
	if h.locker.traces.lease != nil {
		t.traceEnd(context.Background(), t.held(), true, err)
	}
	if logger := h.locker.defaults.logger; logger.Enabled(context.Background(), slog.LevelWarn) {
		held := t.held()
		go logger.Warn("lease lost", "key", h.gate.key, "backend", h.locker.name, "owner", h.owner,
			"token", t.token, "shared", h.gate.shared, "held", held) // a log that blocks must not keep others from learning of their loss
	}
}

// lostChan is closed when the tenure is lost.
func (t *tenure) lostChan() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost == nil {
		t.lost = make(chan struct{})
		if t.why != nil {
			close(t.lost)
		}
	}
	return t.lost
}

// lostErr is why a lost tenure's contexts end.
func (t *tenure) lostErr() error { return t.error("hold", t.why) }

func (t *tenure) error(op string, err error) error {
	return t.hold.locker.error(op, t.hold.gate.key, err)
}

// traceEnd reports how t has ended.
func (t *tenure) traceEnd(ctx context.Context, held time.Duration, lost bool, err error) {
	h := t.hold
	h.locker.traces.lease.TraceLeaseEnd(ctx, LeaseEnd{
		Backend: h.locker.name, Key: h.gate.key, Owner: h.owner, Token: t.token, Shared: h.gate.shared, Held: held, Lost: lost, Err: err,
	})
}
