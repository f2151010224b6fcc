package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

var queueEventChecks = []Check{
	{
		Name: "EventsKeepQueue",
		Rule: "rule 9: a waiter that gives up or times out, an attempt, an Examine, and a Break of the holder or of " +
			"others drop no other " +
			"waiter and, where Guarantees.FIFO, change no order, wherever in the queue they happen",
		run: eventsKeepQueue,
	},
	{
		Name: "BrokenHoldersKeepQueue",
		Rule: "rule 9: when one holder after the other is ended by Breaker.Break, each gives way to one waiter, " +
			"the first where " +
			"Guarantees.FIFO; what the broken holders send later changes nothing",
		run: brokenHoldersKeepQueue,
	},
	{
		Name: "QueuesAreSeparate",
		Rule: "rules 7, 8 and 9: what happens to one key and its waiters does not touch the waiters of another key, of the " +
			"same clients either, nor do thousands of grants touch a lease, a waiter or the tokens of another key",
		run: queuesAreSeparate,
	},
	{
		Name: "SilentWaitersKeepQueue",
		Rule: "rule 9: a turn that a waiter does not take, because it cannot be reached, ends for that waiter alone: " +
			"the others are served within its TTL and MaxLate, in their order where Guarantees.FIFO",
		Needs: []Need{needsLinked},
		run:   silentWaitersKeepQueue,
	},
}

// queued is how many waiters each queue has.
const queued = 6

// A queueEvent happens to a full queue behind a holder. do reports whether the event has ended the holder's lease.
type queueEvent struct {
	what   string
	do     func(t *trial, g *grant, l *line) (ended bool)
	timing []int // places of waiters that time out
	holds  bool  // the first waiter does not release its lease by itself; do releases it
}

// leaves returns the event that waiters give up, one after the other.
func leaves(places ...int) queueEvent {
	return queueEvent{what: fmt.Sprintf("waiters %v have given up", places), do: func(t *trial, _ *grant, l *line) bool {
		for _, i := range places {
			l.waits[i].cancelAndFail(t)
			t.queueAtMostOf(l.key, l.waiting())
		}
		return false
	}}
}

// timeOut returns the event that waiters time out.
func timeOut(places ...int) queueEvent {
	what := fmt.Sprintf("waiters %v have timed out", places)
	return queueEvent{what: what, timing: places, do: func(t *trial, _ *grant, l *line) bool {
		for _, i := range places {
			w := l.waits[i]
			t.within(t.patience(), w.done)
			if err := w.fails(t, "Acquire with a timeout"); !errors.Is(err, context.DeadlineExceeded) {
				w.unavailable(t)
				t.breaks(4, "Acquire with a timeout: %v, want context.DeadlineExceeded", err)
			}
		}
		t.queueAtMostOf(l.key, l.waiting())
		return false
	}}
}

// patience returns the timeout for waiters that are to time out after all others have arrived.
func (t *trial) patience() time.Duration {
	return t.short() + queued*(t.h.ArrivalDelay+stall)*time.Duration(t.stretch)
}

// leavesAtRelease returns the event that waiters give up while the holder releases its lease.
func leavesAtRelease(places ...int) queueEvent { return leavesAt("the release", release, places) }

// leavesAtBreak is leavesAtRelease for a holder whose lease is broken instead.
func leavesAtBreak(places ...int) queueEvent { return leavesAt("the Break", breakOrRelease, places) }

// release releases g.
func release(t *trial, g *grant) error { t.release(g); return nil }

// breakOrRelease ends g by Break if the store supports it, and by Release otherwise.
func breakOrRelease(t *trial, g *grant) error {
	if b, ok := t.b.(backend.Breaker); ok {
		if err := t.breaksLease(b, g); err != nil {
			t.fatalf("Break of a live lease: %v", err)
		}
		return nil
	}
	return release(t, g)
}

func leavesAt(when string, end func(t *trial, g *grant) error, places []int) queueEvent {
	what := fmt.Sprintf("waiters %v gave up at %s", places, when)
	return queueEvent{what: what, do: func(t *trial, g *grant, l *line) bool {
		released := t.call(func() error { return end(t, g) })
		for _, i := range places {
			l.waits[i].cancel()
		}
		<-released.done
		return true
	}}
}

// breaksWaiters returns the event that Break is called for waiting owners and for an unknown owner.
func breaksWaiters(places ...int) queueEvent {
	what := fmt.Sprintf("Break was called for waiters %v", places)
	return queueEvent{what: what, do: func(t *trial, _ *grant, l *line) bool {
		if b, ok := t.b.(backend.Breaker); ok {
			for _, i := range places {
				t.breaksNothing(b, l.key, l.waits[i].owner, "Break of an owner that waits")
			}
			t.breaksNothing(b, l.key, backend.NewOwner(), "Break of an owner that nobody is")
		}
		return false
	}}
}

var queueEvents = []queueEvent{
	leaves(0), leaves(queued / 2), leaves(queued - 1), timeOut(0), timeOut(queued / 2),
	leavesAtRelease(0), leavesAtRelease(1), leavesAtRelease(0, 1, queued-1), leavesAtBreak(0),
	breaksWaiters(0), breaksWaiters(queued/2, queued-1),
	{what: "attempts were refused and timed out", do: func(t *trial, g *grant, l *line) bool {
		for i := range 4 {
			t.refused(t.client(i), g)
			t.timesOut(t.client(i), l.key, i%2 == 0)
		}
		t.queueAtMostOf(l.key, l.waiting())
		return false
	}},
	{holds: true, what: "waiters 1 and 5 gave up while waiter 0 had its turn", do: func(t *trial, g *grant, l *line) bool {
		t.release(g)
		if !t.g.FIFO { // the other waiters may be granted the key first
			t.release(l.grantedOf(0, queued*t.handOff()))
			return true
		}
		first := l.grantedOf(0, t.handOff())
		for _, i := range []int{1, queued - 1} {
			l.waits[i].cancelAndFail(t)
			t.queueAtMostOf(l.key, l.waiting())
		}
		t.release(first)
		return true
	}},
	{what: "another client has resumed the lease", do: func(t *trial, g *grant, _ *line) bool {
		if _, ok := t.a.(backend.Resumer); ok {
			t.resume(t.other(g.client), g, t.long())
		}
		return false
	}},
	{what: "the store was examined", do: func(t *trial, g *grant, _ *line) bool {
		if examiner, ok := t.b.(backend.Examiner); ok {
			t.examines(examiner)
			t.heldBy(g)
		}
		return false
	}},
	{what: "the holder was broken", do: func(t *trial, g *grant, _ *line) bool { return breakOrRelease(t, g) == nil }},
	{what: "the holder has expired", do: func(t *trial, g *grant, l *line) bool {
		t.renew(g, t.short())
		return true
	}},
}

// examines calls Examine, and fails if a finding is incomplete. The store need not permit the call.
func (t *trial) examines(examiner backend.Examiner) {
	findings, err := examiner.Examine(t.ctx)
	if err != nil {
		return
	}
	for _, f := range findings {
		if f.Code == "" || f.Found == "" {
			t.breaksText(examineRule, "Examine returns a finding without a code, or without what was found: %+v", f)
		}
	}
}

// timesOut requests a held key with a context that ends soon. It makes a waiting request, or an attempt whose reply may
// come before.
func (t *trial) timesOut(b backend.Backend, key string, wait bool) {
	ctx, cancel := context.WithTimeout(t.ctx, t.short()/8)
	defer cancel()
	begun := time.Now()
	g, err := t.requestKey(ctx, b, key, t.long(), wait)
	if g != nil || !errors.Is(err, backend.ErrHeld) && !errors.Is(err, context.DeadlineExceeded) {
		t.lateOnTimeout(err, begun)
		t.fatalf("Acquire of a held key with a timeout: lease %v, error %v", g != nil, err)
	}
}

func eventsKeepQueue(t *trial) {
	t.inChunks(len(queueEvents), queued/2+1, func(i int) {
		e := queueEvents[i]
		g := t.acquire(t.client(i), t.newKey(), t.long())
		l := t.newLine(g.key)
		l.after = "; " + e.what
		for i := range queued {
			ctx, cancel := t.ctx, func() {}
			if slices.Contains(e.timing, i) {
				ctx, cancel = context.WithTimeout(ctx, t.patience())
			}
			defer cancel()
			l.joinWith(ctx, t.client(i/2), t.long(), e.holds && i == 0)
		}
		if !e.do(t, g, l) {
			t.release(g)
		}
		bound := 2*t.handOff() + t.g.Round(t.short())
		if t.g.FIFO {
			l.inOrder(bound)
		} else {
			l.drained(bound)
		}
		t.becomesFree(t.b, g.key, t.handOff(), "after all waiters; "+e.what)
	})
}

// queue starts n waiters for the key of g, by both clients in turn, and returns when all have arrived.
func (t *trial) queue(g *grant, n int) (waits []*waiting) {
	for i := range n {
		waits = append(waits, t.wait(t.client(i), g.key, t.long()))
		t.arrived(g.key, i+1)
	}
	return waits
}

// next waits for the next waiter to be granted the key. It returns that waiter's lease and the remaining waiters, which
// must still wait.
func (t *trial) next(waits []*waiting, bound time.Duration, when string) (*grant, []*waiting) {
	first := t.firstOf(waits, bound, when)
	if t.g.FIFO && first > 0 {
		t.notInTime(t.rule, "%s: waiter %d of the %d that are left had its turn, want the first", when, first+1, len(waits))
	}
	g := waits[first].grant
	waits = slices.Delete(slices.Clone(waits), first, first+1)
	for _, w := range waits {
		w.stillWaits(t, g, t.rule)
	}
	return g, waits
}

// inTurn waits until each of waits has had its turn, and returns the lease of the last. Where Guarantees.FIFO, they have
// their turns in order, and no attempt passes the first of them.
func (t *trial) inTurn(waits []*waiting, bound time.Duration, when string) *grant {
	defer t.watchStore()()
	pause := max(2*tick, t.g.MaxLate/64)
	for end := time.Now().Add(bound); t.g.FIFO && time.Now().Before(end); time.Sleep(pause) {
		if slices.ContainsFunc(waits, (*waiting).ended) {
			break
		}
		if g, _ := t.attempt(t.b, waits[0].key, t.long()); g != nil {
			t.notInTime(t.rule, "%s: an attempt that does not wait was granted the key, which %d others have waited for", when,
				len(waits))
		}
	}
	for {
		var g *grant
		if g, waits = t.next(waits, bound, when); len(waits) == 0 {
			return g
		}
		t.release(g)
	}
}

func brokenHoldersKeepQueue(t *trial) {
	breaker, ok := t.b.(backend.Breaker)
	if !ok {
		t.skipf("the store is no Breaker")
	}
	defer t.watchStore()()
	for _, renews := range []bool{false, true} {
		g := t.acquire(t.a, t.newKey(), t.long())
		waits := t.queue(g, queued)
		var broken []*grant
		for len(waits) > 0 {
			if err := t.breaksLease(breaker, g); err != nil {
				t.fatalf("Break of a live lease: %v", err)
			}
			broken = append(broken, g)
			g, waits = t.next(waits, t.handOff(), "after Break of the holder's lease")
			stale := broken[len(broken)-1]
			if renews {
				t.wantLost("Renew of a lease that was broken", func() error { return stale.Renew(t.ctx, t.long()) })
			} else {
				t.wantLost("Release of a lease that was broken", func() error { return stale.Release(t.ctx) })
			}
			t.breaksNothing(breaker, g.key, stale.owner, "Break of a lease that was broken")
			t.refused(t.a, g)
			for _, w := range waits {
				w.stillWaits(t, g, t.rule)
			}
		}
		t.heldBy(g)
		if err := t.breaksLease(breaker, g); err != nil {
			t.fatalf("Break of a live lease: %v", err)
		}
		t.becomesFree(t.a, g.key, t.handOff(), "after Break of a lease that nobody waited for")
		t.wantLost("Renew of a lease that was broken", func() error { return g.Renew(t.ctx, t.long()) })
		t.free(t.b, g.key, "after Renew of a lease that was broken")
	}
}

func queuesAreSeparate(t *trial) {
	const each = 4
	keys := min(4, t.h.Many/(each/2+1))
	defer t.watchStore()()
	var held []*grant
	var waits [][]*waiting
	for i := range keys {
		held = append(held, t.acquire(t.client(i), t.newKey(), t.long()))
		waits = append(waits, t.queue(held[i], each))
	}
	for i := range keys { // one key after the other; the other keys have waiters or are free
		others := func(what string) {
			time.Sleep(2 * tick)
			for j := i + 1; j < keys; j++ {
				for _, w := range waits[j] {
					w.stillWaits(t, held[j], t.rule)
				}
				if h := t.inspect(held[j].key); h.Waiters >= 0 && h.Waiters != each {
					t.fatalf("%s, of another key: Inspect counts %d waiters, want %d", what, h.Waiters, each)
				}
			}
		}
		g, queue := held[i], waits[i]
		leaver := 1 + i%(each-1)
		queue[leaver].cancelAndFail(t)
		t.queueAtMostOf(g.key, each-1)
		others("after a waiter has given up")
		queue = slices.Delete(slices.Clone(queue), leaver, leaver+1)
		t.refused(t.b, g)
		t.timesOut(t.a, g.key, true)
		others("after attempts")
		_ = breakOrRelease(t, g)
		others("after Break or release")
		for len(queue) > 1 {
			g, queue = t.next(queue, t.handOff(), "after the holder's end")
			t.release(g)
			others("after a release")
		}
		g, _ = t.next(queue, t.handOff(), "after release")
		if i > 0 {
			t.release(g)
			t.becomesFree(t.b, g.key, t.handOff(), "after the last waiter's release")
			continue
		}
		t.renew(g, t.short())
		t.becomesFree(t.b, g.key, t.g.Round(t.short())+t.handOff(), "after the last waiter's expiry")
		others("after an expiry")
	}
	t.outlastsOthers()
}

func silentWaitersKeepQueue(t *trial) {
	c, link := t.linked()
	t.usable(c)
	defer t.watchStore()()
	g := t.acquire(t.a, t.key, t.long())
	var waits, silent []*waiting
	for i := range queued {
		if i == 0 || i == 3 {
			silent = append(silent, t.wait(c, t.key, t.short()))
		} else {
			waits = append(waits, t.wait(t.client(i), t.key, t.long()))
		}
		t.arrived(t.key, i+1)
	}
	t.confirmQueued(t.key, queued)
	link.Hold(FromStore)
	t.release(g)
	bound := time.Duration(len(silent)) * (t.g.Round(t.short()) + t.handOff())
	for len(waits) > 0 {
		g, waits = t.next(waits, bound, "after release, with waiters before it that cannot be reached")
		t.refused(t.a, g)
		t.release(g)
	}
	link.Heal()
	for _, w := range silent { // it is granted the key, or fails because its turn has passed
		w.cancel()
		if !t.within(recovery+t.handOff(), w.done) {
			t.breaks(4, "a cancelled Acquire has not returned after its link was healed")
		}
	}
	for _, w := range silent {
		if w.err == nil {
			_ = w.grant.Release(t.ctx)
		}
	}
	t.becomesFree(t.b, t.key, t.g.Round(t.short())+t.handOff(), "after all waiters")
}
