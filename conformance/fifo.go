package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

var fifoChecks = []Check{
	{
		Name:  "FIFO",
		Rule:  "rule 9: where Guarantees.FIFO, grants follow the order of arrival at the store, across clients",
		Needs: []Need{needsFIFO},
		run:   fifo,
	},
	{
		Name:  "FIFOAfterExpiry",
		Rule:  "rule 9: where Guarantees.FIFO, grants follow arrival even if holders expire instead of releasing",
		Needs: []Need{needsFIFO},
		run:   fifoAfterExpiry,
	},
	{
		Name:  "FIFOAfterCancel",
		Rule:  "rule 9: where Guarantees.FIFO, a waiter that leaves does not change the order of the others",
		Needs: []Need{needsFIFO},
		run:   fifoAfterCancel,
	},
	{
		Name:  "LongWaitKeepsPlace",
		Rule:  "rule 9: where Guarantees.FIFO, a waiter that waits longer than its own TTL keeps its place",
		Needs: []Need{needsFIFO},
		run:   longWaitKeepsPlace,
	},
	{
		Name: "TryDisturbsNoWaiter",
		Rule: "rule 9: attempts that do not wait are refused, take no place in the queue, and change no order; neither " +
			"they nor new waiters pass those who wait",
		Needs: []Need{needsFIFO},
		run:   tryDisturbsNoWaiter,
	},
	{
		Name: "ExpiryIsNoGap",
		Rule: "rule 9: where Guarantees.FIFO, an attempt or a waiter that comes just as the holder's lease runs out does " +
			"not get the key before those who wait",
		Needs: []Need{needsFIFO},
		run:   expiryIsNoGap,
	},
}

// A line is a queue of waiters, in the order of their arrival. Each waiter records its turn and releases the key.
type line struct {
	t     *trial
	key   string
	waits []*waiting
	all   sync.WaitGroup
	end   func() // stops watching the store
	after string // what has happened to the line, for failure messages

	mu     sync.Mutex
	turns  []string
	tokens []uint64 // of the turns
}

func (t *trial) newLine(key string) *line { return &line{t: t, key: key, end: t.watchStore()} }

// join adds a waiter, which has arrived when join returns. If dies is true, the waiter does not release the key.
func (l *line) join(b backend.Backend, ttl time.Duration, dies bool) *waiting {
	return l.joinWith(l.t.ctx, b, ttl, dies)
}

// joinWith is join for a waiter that waits until the end of ctx.
func (l *line) joinWith(ctx context.Context, b backend.Backend, ttl time.Duration, dies bool) *waiting {
	w := l.t.waitWith(ctx, b, l.key, ttl)
	l.waits = append(l.waits, w)
	l.all.Add(1)
	l.t.spawn(func() {
		defer l.all.Done()
		<-w.done
		switch {
		case w.contextEnded || w.err != nil && l.t.ended():
			return
		case w.err != nil:
			w.failed(l.t)
			l.t.errorf("a waiting Acquire: %v", w.err)
			return
		}
		l.mu.Lock()
		l.turns, l.tokens = append(l.turns, w.owner), append(l.tokens, w.grant.Token())
		live := w.grant.live(time.Now())
		l.mu.Unlock()
		if !live { // the next waiter may have had its turn already
			l.t.tooLate("a waiter's lease ended before its turn was noted")
		}
		if !dies {
			l.t.release(w.grant)
		}
	})
	l.t.arrived(l.key, l.waiting())
	return w
}

// grantedOf returns the lease of waiter i, once the line has recorded its turn.
func (l *line) grantedOf(i int, d time.Duration) *grant {
	w := l.waits[i]
	g := w.granted(l.t, d, "after release")
	if !l.t.poll(soon, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.Contains(l.turns, w.owner)
	}) {
		l.t.tooLate("a waiter's turn was not noted within %v", soon)
	}
	return g
}

func (l *line) waiting() int {
	n := 0
	for _, w := range l.waits {
		if !w.ended() {
			n++
		}
	}
	return n
}

// drained waits until every waiter has had its turn or has left.
func (l *line) drained(d time.Duration) {
	done := make(chan struct{})
	go func() { l.all.Wait(); close(done) }()
	if !l.t.within(d, done) {
		l.t.notInTime(l.t.rule, "%d of %d waiters have not had their turn within %v%s", l.waiting(), len(l.waits), d, l.after)
	}
	l.end()
	if l.t.g.Fencing > backend.FencingNone && !slices.IsSorted(l.tokens) {
		l.t.breaks(7, "waiters had their turns with the tokens %v%s", l.tokens, l.after)
	}
}

// inOrder waits until every waiter has had its turn or has left, and fails unless the turns followed the order of
// arrival.
func (l *line) inOrder(d time.Duration) {
	l.drained(d)
	var arrived []string
	for _, w := range l.waits {
		if w.err == nil {
			arrived = append(arrived, w.owner)
		}
	}
	if !slices.Equal(l.turns, arrived) {
		var places []string
		for _, owner := range l.turns {
			places = append(places, fmt.Sprint(slices.Index(arrived, owner)+1))
		}
		l.t.notInTime(l.t.rule, "waiters that arrived as 1 to %d had their turns as %v%s", len(arrived), places, l.after)
	}
}

func fifo(t *trial) {
	for range 2 {
		g := t.acquire(t.a, t.key, t.long())
		l := t.newLine(t.key)
		for i := range 8 {
			l.join([]backend.Backend{t.a, t.b, t.b}[i%3], t.long(), false)
		}
		t.release(g)
		l.inOrder(t.handOff() * 2)
	}
}

func fifoAfterExpiry(t *trial) {
	g := t.acquire(t.a, t.key, t.long())
	l := t.newLine(t.key)
	for i := range 5 {
		l.join([]backend.Backend{t.b, t.a}[i%2], t.short(), i%2 == 0)
	}
	t.renew(g, t.short())
	l.inOrder(10*t.g.Round(t.short()) + 4*t.handOff())
}

func fifoAfterCancel(t *trial) {
	for _, leaving := range [][]int{{1}, {0, 3, 4, 7}} {
		g := t.acquire(t.a, t.key, t.long())
		l := t.newLine(t.key)
		for i := range 8 {
			l.join(t.client(i/2), t.long(), false)
		}
		for _, i := range leaving {
			l.waits[i].cancelAndFail(t)
			t.queueAtMost(l.waiting())
		}
		l.join(t.a, t.long(), false)
		t.release(g)
		l.inOrder(t.handOff() * 2)
	}
}

// queueAtMost waits until the store's queue has at most n waiters. If the store does not count waiters, it waits for
// ArrivalDelay.
func (t *trial) queueAtMost(n int) { t.queueAtMostOf(t.key, n) }

// queueAtMostOf is queueAtMost for any key.
func (t *trial) queueAtMostOf(key string, n int) {
	var h backend.Holder
	ok := t.poll(t.handOff(), func() bool {
		h = t.inspect(key)
		return h.Waiters <= n
	})
	if !ok {
		t.notInTime(t.rule, "Inspect counts %d waiters long after one was cancelled, want %d", h.Waiters, n)
	}
	if h.Waiters < 0 {
		time.Sleep(t.h.ArrivalDelay * time.Duration(t.stretch))
	}
}

func longWaitKeepsPlace(t *trial) {
	t.together(2, func(i int) {
		g := t.acquire(t.a, t.newKey(), t.long())
		l := t.newLine(g.key)
		l.join(t.b, t.short(), false)
		others := func() {
			l.join(t.a, t.long(), false)
			l.join(t.b, t.long(), false)
		}
		if i == 0 {
			others() // a waiter that leaves the queue and joins it again is now behind the others
		}
		time.Sleep(2*t.g.Round(t.short()) + t.g.MaxLate)
		if i == 1 {
			others() // a waiter whose place has expired is now behind the others
		}
		t.release(g)
		l.inOrder(t.handOff() * 2)
	})
}

func tryDisturbsNoWaiter(t *trial) {
	for _, end := range []func(t *trial, g *grant) error{release, breakOrRelease} {
		t.triesAtEnd(end)
	}
}

// triesAtEnd makes attempts while others wait, and again when end has ended the holder's lease.
func (t *trial) triesAtEnd(end func(t *trial, g *grant) error) {
	g := t.acquire(t.a, t.key, t.long())
	l := t.newLine(t.key)
	for i := range 4 {
		l.join(t.client(i), t.long(), false)
		t.refused(t.a, g)
		t.refused(t.b, g)
	}
	if h := t.inspectBy(t.a, t.key); h.Waiters >= 0 && h.Waiters != 4 {
		t.fatalf("Inspect counts %d waiters; 4 wait, others were refused", h.Waiters)
	}
	_ = end(t, g)
	var newcomers []*waiting
	for i := range 20 { // while the queue drains
		if t.h.Many > 20 && i%3 == 1 { // there is room for more waiters
			newcomers = append(newcomers, t.arrives(l, t.client(i), true, false))
			continue
		}
		g, err := t.attempt(t.b, t.key, t.long())
		switch {
		case err == nil:
			l.overtakenBy("an attempt that does not wait")
			t.release(g)
		case !errors.Is(err, backend.ErrHeld):
			t.fatalf("Acquire: %v", err)
		}
	}
	l.inOrder(t.handOff() * 2)
	for _, w := range newcomers {
		w.granted(t, t.handOff(), "after those who had come before")
	}
	t.becomesFree(t.a, t.key, t.handOff(), "after the last waiter's release")
}

// overtakenBy fails if waiters of the line still wait when somebody behind them has been granted the key. A waiter that
// has had its turn does not count as waiting: it has released the key, so its Acquire has returned.
func (l *line) overtakenBy(whom string) {
	if n := l.waiting(); n > 0 {
		l.t.notInTime(l.t.rule, "%s was granted the key, which %d others have waited for", whom, n)
	}
}

// expiryIsNoGap lets leases expire while others wait for their keys. Newcomers arrive from shortly before the expiry
// until shortly after. In half of the runs, the newcomers wait. In the last runs, they are readers.
func expiryIsNoGap(t *trial) {
	const newcomers, pause = 16, 2 * time.Millisecond
	runs := 6
	if t.g.Shared {
		runs = 10
	}
	t.inChunks(runs, newcomers, func(i int) {
		g := t.acquire(t.a, t.newKey(), t.long())
		l := t.newLine(g.key)
		for n := range 3 {
			l.join(t.client(n/2), t.long(), false)
		}
		t.renew(g, t.short())
		time.Sleep(time.Until(g.Deadline()) - time.Duration(i/2)*pause/2) // sleeps: until the lease is about to end
		for n := 0; n < newcomers && l.waiting() > 0; n++ {
			t.arrives(l, t.client(n), i%2 == 0, i >= 6)
			time.Sleep(pause)
		}
		l.inOrder(4 * t.handOff())
	})
}

// arrives requests the key of l for a newcomer, whose turn comes after the whole line. It returns the wait of a
// newcomer that waits, and nil otherwise.
func (t *trial) arrives(l *line, b backend.Backend, waits, shared bool) *waiting {
	r := backend.Request{Key: l.key, Owner: backend.NewOwner(), TTL: t.long(), Wait: waits, Shared: shared}
	if waits {
		w := t.begin(t.ctx, b, r)
		t.spawn(func() {
			if <-w.done; w.err == nil {
				l.overtakenBy("a waiter that came later")
				t.release(w.grant)
			}
		})
		return w
	}
	begun := time.Now()
	g, err := t.request(t.ctx, b, r)
	t.lateOnTimeout(err, begun)
	switch {
	case err == nil:
		l.overtakenBy("an attempt that does not wait")
		t.release(g)
	case !errors.Is(err, backend.ErrHeld):
		t.breaksText(refuseRule, "Acquire of a key that others wait for: %v, want ErrHeld", err)
	}
	return nil
}
