package conformance

import (
	"slices"
	"sync"
	"time"
)

var waitLateChecks = []Check{
	{
		Name: "WaiterIsNotLate",
		Rule: "rules 3 and 9: a waiter has a dead holder's key by its TTL and Guarantees.MaxLate, whether the holder had " +
			"renewed, had waited " +
			"itself, or dies as the waiter comes, and whoever else has waited",
		run: waiterIsNotLate,
	},
}

// lates records how late waiters were granted keys that became free by expiry, for each way that led there.
type lates struct {
	mu    sync.Mutex
	times map[string][]time.Duration
}

func (l *lates) add(how string, late time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times[how] = append(l.times[how], late)
}

// waiterIsNotLate judges the median of several waiters, because the machine may have stood still for any one of them.
func waiterIsNotLate(t *trial) {
	const each = 3
	defer t.watchStore()()
	l := &lates{times: make(map[string][]time.Duration)}
	// queued is the TTL of a lease that is still live after several waiters have arrived or left.
	queued := t.g.Round(t.awaited() + 2*t.h.ArrivalDelay*time.Duration(t.stretch))
	holders := []func(int){
		func(int) { // the holder dies right after the grant
			g := t.acquire(t.a, t.newKey(), t.short())
			w := t.wait(t.b, g.key, t.long())
			l.add("a holder that died", t.lateness(g, w, g.after))
		},
		func(i int) { // a holder of the waiter's own client dies
			c := t.client(i)
			g := t.acquire(c, t.newKey(), t.short())
			l.add("a holder of the waiter's own client that died", t.lateness(g, t.wait(c, g.key, t.long()), g.after))
		},
		func(i int) { // the holder dies after a renewal, with a waiter behind it
			g := t.acquire(t.b, t.newKey(), []time.Duration{t.awaited(), t.long()}[i%2])
			w := t.wait(t.a, g.key, t.long())
			t.arrived(g.key, 1)
			t.renew(g, t.short()) // may be ErrLost on a slow machine
			g.ttl = t.short()
			l.add("a holder that died after a renewal", t.lateness(g, w, time.Now()))
		},
		func(int) { // the next holder dies
			g := t.acquire(t.a, t.newKey(), t.long())
			first := t.wait(t.a, g.key, t.short())
			t.arrived(g.key, 1)
			var second *waiting
			if t.g.FIFO {
				second = t.wait(t.b, g.key, t.long())
				t.arrived(g.key, 2)
			}
			t.release(g)
			next := first.granted(t, t.handOff(), "after release")
			if second == nil { // started earlier, it might have overtaken the first
				second = t.wait(t.b, g.key, t.long())
			}
			l.add("a holder that had waited itself, and died", t.lateness(next, second, next.after))
		},
		func(int) { // all previous holders die
			g := t.acquire(t.b, t.newKey(), t.awaited())
			first := t.wait(t.b, g.key, t.awaited())
			t.arrived(g.key, 1)
			next := first.granted(t, t.g.Round(g.ttl)+t.handOff(), "after the holder's expiry")
			last := t.wait(t.a, g.key, t.long())
			l.add("a holder that had waited for one that died, and died", t.lateness(next, last, next.after))
		},
		func(int) { // another waiter leaves the queue
			g := t.acquire(t.a, t.newKey(), queued)
			leaves := t.wait(t.a, g.key, t.long())
			t.arrived(g.key, 1)
			w := t.wait(t.b, g.key, t.long())
			t.arrived(g.key, 2)
			leaves.cancelAndFail(t)
			t.queueAtMostOf(g.key, 1)
			l.add("a holder that died after the first of two waiters had left", t.lateness(g, w, g.after))
		},
		func(int) { // the only other waiter has left before
			g := t.acquire(t.b, t.newKey(), queued)
			leaves := t.wait(t.a, g.key, t.long())
			t.arrived(g.key, 1)
			leaves.cancelAndFail(t)
			t.queueAtMostOf(g.key, 0)
			l.add("a holder that died after the only waiter before had left",
				t.lateness(g, t.wait(t.a, g.key, t.long()), g.after))
		},
		func(int) { // an earlier lease would have ended first, but is renewed
			other := t.acquire(t.a, t.newKey(), t.short())
			g := t.acquire(t.a, t.newKey(), t.g.Round(2*t.short()))
			t.renew(other, t.long())
			w := t.wait(t.b, g.key, t.long())
			l.add("a holder that died, and would not have been the first", t.lateness(g, w, g.after))
			t.release(other)
		},
		func(i int) { // the waiter arrives at the last moment
			g := t.acquire(t.b, t.newKey(), t.short())
			answered := g.after
			time.Sleep(time.Until(g.Deadline()) - time.Duration(5+10*i)*time.Millisecond)
			w := t.wait(t.a, g.key, t.long())
			l.add("a holder that died as the waiter came", t.lateness(g, w, answered))
		},
	}
	if t.g.Shared {
		holders = append(holders, func(i int) {
			g := t.acquire(t.a, t.newKey(), t.short())
			w := t.waitToRead(t.client(i), g.key, t.long())
			l.add("a writer that died while a reader waited", t.lateness(g, w, g.after))
		})
	}
	t.inChunks(each*len(holders), 2, func(i int) { holders[i/each](i % each) })
	const most = time.Second
	for how, times := range l.times {
		if slices.Sort(times); times[len(times)/2] > most {
			t.notInTime(t.rule, "a waiter has the key of %s %v later than it was free (median of %d)", how,
				times[len(times)/2].Round(tick), len(times))
		}
	}
}

// lateness waits until w is granted the key of g, and returns how much later than allowed the grant was. Time in which
// this process does not run does not count.
func (t *trial) lateness(g *grant, w *waiting, answered time.Time) time.Duration {
	due := t.lastRefusal(answered, g.ttl)
	t.within(time.Until(due), w.done)
	late := time.Duration(0)
	for ; !w.ended() && late < t.handOff(); late += tick {
		t.within(0, w.done)
	}
	next := w.granted(t, 0, "after the holder's expiry")
	if early := g.Deadline().Sub(next.after); early > 0 {
		t.doubleGrant("a waiter was granted the key %v before the holder's deadline", early)
	}
	t.release(next)
	return late
}

// pushedWaiters records how long waiters take to learn of a release, in ticks, and how long requests take.
type pushedWaiters struct {
	who          string
	more         int // requests that must come before the waiter's own, beside the release
	mu           sync.Mutex
	took         []int
	requestTimes []time.Duration
}

// prompt reports whether half of the waiters learned of the release within two ticks and three requests, or more
// where the store needs more.
func (p *pushedWaiters) prompt() bool {
	if len(p.took) == 0 {
		return true
	}
	slices.Sort(p.requestTimes)
	const most, requests = 2, 3
	limit := time.Duration(requests+p.more) * p.requestTimes[len(p.requestTimes)/2]
	return int(p.median()/tick) <= most+int(limit/tick)
}

func (p *pushedWaiters) median() time.Duration {
	slices.Sort(p.took)
	return time.Duration(p.took[len(p.took)/2]) * tick
}

// add waits until one of waits has been granted the released key, and returns its index. If there is an order, that is
// the first.
func (p *pushedWaiters) add(t *trial, waits []*waiting, asked time.Duration) (turn int) {
	ticks := 0 // as in within: time in which this process does not run does not count
	for turn = -1; turn < 0 && ticks < int(t.handOff()/tick); ticks++ {
		t.within(0, waits[0].done)
		turn = slices.IndexFunc(waits, (*waiting).ended)
	}
	p.record(ticks, asked)
	turn = max(turn, 0)
	waits[turn].granted(t, tick, "after release")
	return turn
}

// record records that a waiter learned of a release after ticks. A request took asked.
func (p *pushedWaiters) record(ticks int, asked time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took, p.requestTimes = append(p.took, ticks), append(p.requestTimes, asked)
}
