package conformance

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	// soon bounds what the contract calls prompt. A check waits that long only if it fails.
	soon = 5 * time.Second
	tick = 10 * time.Millisecond
)

// within waits for ch, for at least d. Time in which this process does not run does not count, because what d bounds
// needs the same processor.
func (t *trial) within(d time.Duration, ch <-chan struct{}) bool { return within(d, ch) }

func within(d time.Duration, ch <-chan struct{}) bool {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for range d/tick + 1 {
		timer.Reset(tick)
		select {
		case <-ch:
			return true
		case <-timer.C:
		}
	}
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// poll calls done until it returns true, for at least d, counted as in within.
func (t *trial) poll(d time.Duration, done func() bool) bool {
	pause := time.Millisecond
	for waited := time.Duration(0); ; {
		if done() {
			return true
		}
		if waited >= d {
			return false
		}
		if err := t.ctx.Err(); err != nil {
			t.fatalf("the check was ended: %v", err)
		}
		time.Sleep(pause)
		waited += pause
		pause = min(2*pause, tick)
	}
}

// stalls adds up the times in which the machine seems to have stood still. In these times, the store could not act
// either.
type stalls struct{ sum time.Duration }

// saw records how much longer an operation took than usual.
func (s *stalls) saw(took, usual time.Duration) {
	if over := took - usual; over > stall {
		s.sum = min(s.sum+over, soon)
	}
}

// outlast sleeps until at, when the store must have acted by itself. It adds the stalls since the store was first
// allowed to act, and the longest time in which the store did not reply.
func (t *trial) outlast(at time.Time) {
	defer t.watchStore()()
	var s stalls
	asked := t.alone // a check that runs alone may have stopped the store
	for due := later(time.Now(), at.Add(-t.g.MaxLate)); ; {
		time.Sleep(time.Until(due))
		now := time.Now()
		s.saw(now.Sub(due), 0)
		left := at.Add(s.sum + t.silence()).Sub(now)
		if left <= 0 && asked {
			return
		}
		if left <= 0 { // the store may stand still right now
			t.probeStore()
			asked, left = true, time.Nanosecond
		}
		due = now.Add(min(left, tick))
	}
}

// handOff bounds the time from when a key becomes free until a waiter has it.
func (t *trial) handOff() time.Duration { return soon + t.g.MaxLate }

// A waiting is an Acquire under way on a goroutine of its own.
type waiting struct {
	client       backend.Backend
	key          string
	owner        string
	shared       bool
	begun        time.Time
	cancel       context.CancelFunc
	done         chan struct{}
	grant        *grant        // set when done is closed
	err          error         // set when done is closed
	took         time.Duration // set when done is closed
	contextEnded bool          // it failed, and its own context had ended; set when done is closed
	seen         time.Time     // when it was counted in the store's queue; guarded by trial.mu
	uncounted    bool          // the store does not count waiters; guarded by trial.mu
}

// wait starts an Acquire that waits.
func (t *trial) wait(b backend.Backend, key string, ttl time.Duration) *waiting {
	return t.waitWith(t.ctx, b, key, ttl)
}

func (t *trial) waitWith(ctx context.Context, b backend.Backend, key string, ttl time.Duration) *waiting {
	return t.begin(ctx, b, backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl, Wait: true})
}

// waitAs is wait for an owner of the given name.
func (t *trial) waitAs(b backend.Backend, key, owner string) *waiting {
	return t.begin(t.ctx, b, backend.Request{Key: key, Owner: owner, TTL: t.long(), Wait: true})
}

// begin starts an Acquire on a goroutine of its own.
func (t *trial) begin(ctx context.Context, b backend.Backend, r backend.Request) *waiting {
	ctx, cancel := context.WithCancel(ctx)
	w := &waiting{client: b, key: r.Key, owner: r.Owner, shared: r.Shared, begun: time.Now(), cancel: cancel,
		done: make(chan struct{})}
	if r.Wait {
		t.mu.Lock()
		t.waits = append(t.waits, w)
		t.mu.Unlock()
	}
	t.spawn(func() {
		defer close(w.done)
		defer cancel()
		w.err = errors.New("ended without an answer")
		w.grant, w.err = t.request(ctx, b, r)
		w.took = time.Since(w.begun)
		w.contextEnded = w.err != nil && kit.Ended(ctx)
	})
	return w
}

// waitedFor returns a lease that client a had to wait for.
func (t *trial) waitedFor(ttl time.Duration) *grant { return t.grantedLater(ttl, false) }

// waitedToRead is waitedFor for a shared lease.
func (t *trial) waitedToRead(ttl time.Duration) *grant { return t.grantedLater(ttl, true) }

func (t *trial) grantedLater(ttl time.Duration, shared bool) *grant {
	first := t.acquire(t.b, t.newKey(), t.long())
	w := t.begin(t.ctx, t.a, backend.Request{Key: first.key, Owner: backend.NewOwner(), TTL: ttl, Wait: true,
		Shared: shared})
	t.arrived(first.key, 1)
	t.release(first)
	return w.granted(t, t.handOff(), "after release")
}

// ended reports whether Acquire has returned.
func (w *waiting) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// granted waits for the lease, which must be granted within d.
func (w *waiting) granted(t *trial, d time.Duration, when string) *grant {
	if !t.within(d, w.done) {
		t.notInTime(t.ruleText(9), "%s: a waiter has not been granted the free key within %v", when, d)
	}
	if w.err != nil {
		w.failed(t)
		t.breaks(9, "%s: a waiting Acquire: %v", when, w.err)
	}
	return w.grant
}

// firstOf waits at most d until one of waits has been granted its key, and returns its index.
func (t *trial) firstOf(waits []*waiting, d time.Duration, when string) (first int) {
	if !t.poll(d, func() bool {
		first = slices.IndexFunc(waits, (*waiting).ended)
		return first >= 0
	}) {
		t.notInTime(t.ruleText(9), "%s: none of %d waiters has been granted the free key within %v", when, len(waits), d)
	}
	waits[first].granted(t, tick, when)
	return first
}

// fails waits for the error, which must be returned soon, and returns it.
func (w *waiting) fails(t *trial, when string) error {
	if !t.within(soon, w.done) {
		t.breaks(4, "%s: not returned within %v", when, soon)
	}
	if w.err == nil {
		t.fatalf("%s: granted, want an error", when)
	}
	return w.err
}

// cancelAndFail cancels the wait for a held key, which must end it with the context's error.
func (w *waiting) cancelAndFail(t *trial) {
	w.cancel()
	if err := w.fails(t, "cancelled Acquire"); !errors.Is(err, context.Canceled) {
		w.unavailable(t)
		t.breaks(4, "cancelled Acquire: %v, want context.Canceled", err)
	}
}

// failed is called if w has ended although it should have its key or still wait. A wait may end if its first request
// gets no reply (kit.Waiter); then failed gives up the trial. If the check's own faults may have held back the reply,
// failed gives up only if something stood still, or if the store does not count waiters: then the check cannot know
// that the reply came before the faults. Faults of links and processes do not affect the trial's two clients.
func (w *waiting) failed(t *trial) {
	touched := w.client != t.a && w.client != t.b
	t.mu.Lock()
	faulty := t.alone || len(t.faults) > 0 && touched
	doubt := ""
	if w.uncounted {
		doubt = "its first request may not have had a reply before the outage"
	}
	t.mu.Unlock()
	if !faulty {
		w.unavailable(t)
	} else if doubt = cmp.Or(t.stoodStill(), doubt); doubt != "" && errors.Is(w.err, backend.ErrUnavailable) {
		t.lateFor(t.ruleText(9), t.machineIsSlow(), "a waiting Acquire: %v; %s", w.err, doubt)
	}
}

// unavailable gives up the trial if w ended by a timeout of the store's own, which may pass on a busy machine before w
// is cancelled. A waiter that entered the store's queue promptly outlives an outage. If nothing stood still, it must
// not end within a second of being seen there.
func (w *waiting) unavailable(t *trial) {
	const outage = time.Second // every store's waiters outlive that
	t.mu.Lock()
	seen := w.seen
	t.mu.Unlock()
	if end := w.begun.Add(w.took); seen.IsZero() || seen.Sub(w.begun) > slow || end.Sub(seen) > outage ||
		t.stoodStill() != "" {
		t.unavailable(w.err, time.Now().Add(-w.took))
	}
}

// unavailable gives up the trial if err, of a wait that began at begun, is a timeout of the store's own.
func (t *trial) unavailable(err error, begun time.Time) {
	if errors.Is(err, backend.ErrUnavailable) {
		t.lateOnTimeout(err, begun)
	}
}

// stillWaits fails by the given rule if w has ended although the holder has not given up its lease, g. g is nil if the
// holder is unknown.
func (w *waiting) stillWaits(t *trial, g *grant, rule string) {
	switch {
	case !w.ended():
	case w.contextEnded:
		t.provesNothing("a wait's own context ended before it was seen to wait")
	case w.err != nil:
		w.failed(t)
		t.breaksText(rule, "an Acquire that waits ended while the key was held: %v", w.err)
	case w.shared && g != nil && g.shared:
		t.breaks(9, "a shared request passed an exclusive one that waited before it for the key %s", show(w.key))
	case g != nil && !g.gone() && g.live(w.grant.after) && w.grant.live(w.grant.after):
		t.doubleGrant("a waiter was granted the key %s, which is held, %v before the holder's deadline", show(w.key),
			g.Deadline().Sub(w.grant.after))
	default:
		t.tooLate("a waiter had its turn before it was seen to wait")
	}
}

// arrived waits until n waiters are in the store's queue for key, or for ArrivalDelay if the store does not count
// waiters.
func (t *trial) arrived(key string, n int) {
	var h backend.Holder
	coming, rule := t.pendingWaits(key), t.ruleText(9)
	ok := t.poll(soon, func() bool {
		h = t.inspect(key)
		for _, w := range coming {
			if w.ended() && w.err != nil {
				w.unavailable(t) // whatever the check's faults: none holds back the reply to a waiter's first request
			}
			w.stillWaits(t, t.holderBefore(w), rule)
		}
		return h.Waiters < 0 || h.Waiters >= n
	})
	if !ok {
		t.notInTime(t.rule, "Inspect counts %d waiters after %v, want %d", h.Waiters, soon, n)
	}
	t.mu.Lock()
	for _, w := range coming {
		if w.uncounted = h.Waiters < 0; !w.uncounted && w.seen.IsZero() {
			w.seen = time.Now()
		}
	}
	t.mu.Unlock()
	if h.Waiters < 0 {
		time.Sleep(t.h.ArrivalDelay * time.Duration(t.stretch))
	}
}

// confirmQueued waits until n waiters are in the store's queue for key and have its reply, so that they outlive an
// outage.
func (t *trial) confirmQueued(key string, n int) {
	t.arrived(key, n)
	time.Sleep(t.h.ArrivalDelay * time.Duration(t.stretch))
}

// pendingWaits returns the waits for key that have not ended, and in any case the latest one.
func (t *trial) pendingWaits(key string) (waits []*waiting) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range slices.Backward(t.waits) {
		if w.key == key && (len(waits) == 0 || !w.ended()) {
			waits = append(waits, w)
		}
	}
	return waits
}

// holderBefore returns a lease of the key of w that was granted before w, and that no client has lost or begun to
// release. It returns nil if there is none.
func (t *trial) holderBefore(w *waiting) *grant {
	if !w.ended() || w.err != nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range slices.Backward(t.grants) {
		if g != w.grant && g.key == w.key && g.after.Before(w.grant.after) && !g.ended.Load() && !g.gone() {
			return g
		}
	}
	return nil
}
