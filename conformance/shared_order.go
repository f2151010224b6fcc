package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
)

// Checks of which requests wait for which.
var sharedOrderChecks = []Check{
	{
		Name: "NoReaderPassesWaitingWriter",
		Rule: "rule 9: no shared request that waits passes a waiting exclusive one, even while other readers hold the key",
		run:  noReaderPassesWaitingWriter,
	},
	{
		Name: "TrySharedBehindWaitingWriter",
		Rule: "rule 9: a shared request that does not wait gets ErrHeld while an exclusive one waits; it takes no place " +
			"in the queue",
		run: trySharedBehindWaitingWriter,
	},
	{
		Name: "ReadersEnterTogether",
		Rule: "rule 9: shared waiters that follow each other enter together, however the exclusive lease before them ends",
		run:  readersEnterTogether,
	},
	{
		Name: "ReadersIgnoreLaterWriter",
		Rule: "rule 9: a request waits only for those ahead of it: a shared one does not wait for an exclusive one " +
			"that came later",
		Needs: []Need{needsFIFO},
		run:   readersIgnoreLaterWriter,
	},
	{
		Name: "WriterOutwaitsStream",
		Rule: "rule 9: an exclusive request behind a stream of readers waits for those before it alone",
		run:  writerOutwaitsStream,
	},
	{
		Name: "LeavingWriterFreesReaders",
		Rule: "rule 9: readers parked behind an exclusive request that gives up enter at once, beside those that hold " +
			"the key",
		run: leavingWriterFreesReaders,
	},
}

func noReaderPassesWaitingWriter(t *trial) {
	clients := [][3]backend.Backend{{t.a, t.b, t.a}, {t.a, t.a, t.b}, {t.b, t.a, t.b}, {t.a, t.b, t.b}}
	ends := t.endings()
	t.inChunks(len(clients), 4, func(i int) {
		key, c := t.newKey(), clients[i]
		reader := t.read(c[0], key, t.long())
		writer := t.wait(c[1], key, t.long())
		t.arrived(key, 1)
		late := []*waiting{t.waitToRead(c[2], key, t.long())}
		t.arrived(key, 2)
		late = append(late, t.waitToRead(c[0], key, t.long()))
		t.arrived(key, 3)
		t.noReaderEnters(key, "behind a waiting writer")
		t.renew(reader, t.long())
		time.Sleep(t.short() / 4)
		for _, w := range late {
			w.stillWaits(t, reader, t.rule)
		}
		writer.stillWaits(t, reader, t.rule)
		t.release(reader)
		g := writer.granted(t, t.handOff(), "after the release of the reader before it, with others behind")
		t.readRefused(g)
		for _, w := range late {
			w.stillWaits(t, g, t.rule)
		}
		ends[i%len(ends)](g)
		for _, r := range t.readersEnter(late, t.g.Round(t.short())+t.handOff(), "after the end of the writer before them") {
			t.release(r)
		}
		t.becomesFree(t.b, key, t.handOff(), "after the last release")
	})
}

func trySharedBehindWaitingWriter(t *trial) {
	for _, client := range []backend.Backend{t.a, t.b} {
		reader := t.read(client, t.key, t.long())
		first := t.wait(t.b, t.key, t.long())
		t.arrived(t.key, 1)
		second := t.wait(t.a, t.key, t.long())
		t.arrived(t.key, 2)
		for range 5 {
			t.noReaderEnters(t.key, "behind two waiting writers")
		}
		t.queueAtMost(2)
		first.cancelAndFail(t)
		t.queueAtMost(1)
		t.noReaderEnters(t.key, "behind the second of two waiting writers, of which the first was cancelled")
		second.stillWaits(t, reader, t.rule)
		t.renew(reader, t.long())
		t.nobodyPasses(second, func() { t.release(reader) })
		t.release(second.granted(t, t.handOff(), "after the release of the only reader"))
		t.becomesFree(t.a, t.key, t.handOff(), "after the last writer's release")
		// Now nobody waits.
		reader = t.read(client, t.key, t.long())
		last := t.wait(t.a, t.key, t.long())
		t.arrived(t.key, 1)
		last.cancelAndFail(t)
		beside := t.soonShared(t.b, t.key, "after the cancellation of the only waiting writer")
		t.readersKeepOut([]*grant{reader, beside}, "after the cancellation of the only waiting writer")
		t.release(reader)
		t.release(beside)
	}
}

// soonShared acquires a shared lease, which must be granted soon.
func (t *trial) soonShared(b backend.Backend, key, when string) (g *grant) {
	return t.sharedWithin(t.handOff(), b, key, when)
}

// sharedWithin is soonShared with the bound d.
func (t *trial) sharedWithin(d time.Duration, b backend.Backend, key, when string) (g *grant) {
	var err error
	if !t.poll(d, func() bool {
		g, err = t.share(b, key, t.long())
		return g != nil
	}) {
		t.notInTime(t.ruleText(9), "%s: shared Acquire is still refused after %v: %v", when, d, err)
	}
	return g
}

// endings returns the ways in which a lease can end while others wait for its key.
func (t *trial) endings() []func(g *grant) {
	ends := []func(g *grant){
		func(g *grant) { t.release(g) },
		func(g *grant) { t.renew(g, t.short()) }, // and the lease expires
	}
	if breaker, ok := t.b.(backend.Breaker); ok {
		ends = append(ends, func(g *grant) {
			if err := t.breaksLease(breaker, g); err != nil {
				t.fatalf("Break of a live lease: %v", err)
			}
		})
	}
	return ends
}

// readersEnterTogether releases no reader's lease before all readers have theirs.
func readersEnterTogether(t *trial) {
	n, ends := max(2, min(12, t.h.Many-2)), t.endings()
	t.inChunks(len(ends), n+1, func(i int) {
		g := t.acquire(t.a, t.newKey(), t.long())
		var waits []*waiting
		for j := range n {
			waits = append(waits, t.waitToRead(t.client(j/2), g.key, t.long()+time.Duration(j)*t.long()/16))
		}
		t.arrived(g.key, n)
		ends[i](g)
		readers := t.readersEnter(waits, t.g.Round(t.short())+t.handOff(), "after the end of the writer's lease")
		t.holdersAre(readers, "after the end of the writer's lease")
		var h backend.Holder
		if !t.poll(t.handOff(), func() bool { h = t.inspect(g.key); return h.Waiters <= 0 }) {
			t.breaksText(inspectRule, "Inspect counts %d waiters of a key that all %d readers have been granted", h.Waiters, n)
		}
		for _, r := range readers {
			t.refused(t.b, r)
			t.release(r)
		}
		t.becomesFree(t.a, g.key, t.handOff(), "after the last reader's release")
	})
}

func readersIgnoreLaterWriter(t *trial) {
	ends := t.endings()
	t.inChunks(len(ends), 6, func(i int) {
		g := t.acquire(t.b, t.newKey(), t.long())
		var waits []*waiting
		for j := range 3 {
			waits = append(waits, t.waitToRead(t.client(j), g.key, t.long()))
			t.arrived(g.key, j+1)
		}
		later := []*waiting{t.wait(t.a, g.key, t.long())}
		t.arrived(g.key, 4)
		later = append(later, t.wait(t.b, g.key, t.long()))
		t.arrived(g.key, 5)
		last := t.waitToRead(t.a, g.key, t.long()) // overtakes neither writer
		t.arrived(g.key, 6)
		ends[i](g)
		readers := t.readersEnter(waits, t.g.Round(t.short())+t.handOff(), "after the writer before them, with others behind")
		t.noReaderEnters(g.key, "behind writers that came while another writer held the key")
		for _, r := range readers {
			for _, w := range append(later, last) {
				w.stillWaits(t, r, t.rule)
			}
			t.release(r)
		}
		for _, w := range later {
			next := w.granted(t, t.handOff(), "after the release of the readers before it")
			last.stillWaits(t, next, t.rule)
			t.release(next)
		}
		t.release(last.granted(t, t.handOff(), "after the release of the writers before it"))
		t.becomesFree(t.a, g.key, t.handOff(), "after the last writer's release")
	})
}

// writerOutwaitsStream makes writers wait for a key that readers share all the time. Each reader requests the key again
// before the others have released theirs.
func writerOutwaitsStream(t *trial) {
	const workers = 6
	held := 20 * time.Millisecond
	if t.inspect(t.key).Waiters < 0 || t.g.Wake == backend.WakePoll {
		// A writer must wait longer than the suite takes to observe that it waits.
		held = 2 * t.h.ArrivalDelay * time.Duration(t.stretch)
	}
	var (
		roster  = &roster{t: t, live: make(map[*grant]bool)}
		mu      sync.Mutex
		readers []*grant
		done    = make(chan struct{})
		stop    = sync.OnceFunc(func() { close(done) })
	)
	defer stop()
	defer t.watchStore()()
	stream := func(i int) {
		for {
			select {
			case <-done:
				return
			default:
			}
			w := t.waitToRead(t.client(i), t.key, t.long())
			g := w.granted(t, 4*t.handOff(), "key that is shared by a stream of readers")
			roster.granted(g)
			mu.Lock()
			readers = append(readers, g)
			mu.Unlock()
			time.Sleep(held + rand.N(held))
			roster.releases(g)
			t.release(g)
		}
	}
	t.together(workers+1, func(i int) {
		if i < workers {
			time.Sleep(time.Duration(i) * held / 4)
			stream(i)
			return
		}
		defer stop()
		for n := range 4 {
			time.Sleep(4 * held)
			t.queueAtMost(0) // readers may still wait behind the writer before, on a slow machine
			w := t.wait(t.client(n/2), t.key, t.long())
			w.inStream(t)
			queued := time.Now()
			g := w.granted(t, t.handOff(), "with a stream of readers")
			roster.granted(g)
			mu.Lock()
			for _, r := range readers {
				if r.before.After(queued) && r.after.Before(g.after) {
					mu.Unlock()
					t.breaks(9, "a shared request made %v after an exclusive one was in the queue was granted before it",
						r.before.Sub(queued))
				}
			}
			mu.Unlock()
			time.Sleep(held / 4)
			roster.releases(g)
			t.release(g)
		}
	})
	t.becomesFree(t.a, t.key, t.handOff(), "after readers and writers")
}

// inStream waits until w is in the queue, or has been granted the key. Until w waits, no reader does.
func (w *waiting) inStream(t *trial) {
	var waiters int
	t.poll(soon, func() bool {
		waiters = t.inspect(w.key).Waiters
		return waiters != 0 || w.ended()
	})
	if waiters < 0 {
		time.Sleep(t.h.ArrivalDelay * time.Duration(t.stretch))
	}
}

// A timeLimit is a context whose deadline passes when passes is called.
type timeLimit struct {
	context.Context
	done   chan struct{}
	passes func()
}

func newTimeLimit(parent context.Context) timeLimit {
	done := make(chan struct{})
	limit := timeLimit{parent, done, sync.OnceFunc(func() { close(done) })}
	context.AfterFunc(parent, limit.passes)
	return limit
}

func (l timeLimit) Done() <-chan struct{} { return l.done }

func (l timeLimit) Err() error {
	select {
	case <-l.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// leavingWriterFreesReaders makes writers leave the queue in every way and from every place, while a reader holds the
// key.
func leavingWriterFreesReaders(t *trial) {
	leave := map[string]func(key string, c backend.Backend) (leave func()){
		"a cancelled writer": func(key string, c backend.Backend) func() {
			w := t.wait(c, key, t.long())
			return func() { w.cancelAndFail(t) }
		},
		"a writer whose time was up": func(key string, c backend.Backend) func() {
			ctx := newTimeLimit(t.ctx)
			w := t.waitWith(ctx, c, key, t.long())
			return func() {
				ctx.passes()
				if err := w.fails(t, "Acquire whose time was up"); !errors.Is(err, context.DeadlineExceeded) {
					w.unavailable(t)
					t.breaks(4, "Acquire whose time was up: %v, want context.DeadlineExceeded", err)
				}
			}
		},
		"a writer whose client was closed": func(key string, c backend.Backend) func() {
			closing := t.open()
			t.wait(closing, key, t.long())
			return func() { t.closes(closing) }
		},
	}
	var ways []string
	for what := range leave {
		ways = append(ways, what)
	}
	t.inChunks(4*len(ways), 8, func(i int) {
		what, key := ways[i/4], t.newKey()
		readers := t.readers(key, 1+i%2, t.long())
		reader, queued := readers[0], 1
		leaves := leave[what](key, t.client(i+1))
		t.arrived(key, queued)
		var second *waiting
		switch i % 4 {
		case 1: // another writer and a reader have left before
			gone := []*waiting{t.waitToRead(t.b, key, t.long()), t.wait(t.a, key, t.long())}
			t.arrived(key, 3)
			for _, w := range gone {
				w.cancelAndFail(t)
			}
			t.queueAtMostOf(key, queued)
		case 2, 3: // another writer stays for a while, or leaves first
			second = t.wait(t.a, key, t.long())
			queued++
			t.arrived(key, queued)
		}
		var parked []*waiting
		for j := range 3 {
			parked = append(parked, t.waitToRead(t.client(j), key, t.long()))
		}
		t.arrived(key, queued+len(parked))
		for _, w := range parked {
			w.stillWaits(t, reader, t.rule)
		}
		leaveInTurn := []func(){leaves}
		if second != nil {
			leaveInTurn = append(leaveInTurn, func() { second.cancelAndFail(t) })
		}
		if i%4 == 3 {
			slices.Reverse(leaveInTurn)
		}
		for n, leaves := range leaveInTurn {
			if leaves(); n == len(leaveInTurn)-1 {
				break
			}
			t.queueAtMostOf(key, 1+len(parked))
			t.noReaderEnters(key, "behind one of two waiting writers, when the other has left")
			for _, w := range parked {
				w.stillWaits(t, reader, t.rule)
			}
		}
		readers = append(readers, t.readersEnter(parked, t.handOff(), "behind "+what)...)
		readers = append(readers, t.soonShared(t.client(i), key, "behind "+what),
			t.waitToRead(t.client(i), key, t.long()).granted(t, t.handOff(), "with readers alone, behind "+what))
		t.readersKeepOut(readers, "behind "+what)
		for _, r := range readers {
			t.release(r)
		}
		t.becomesFree(t.b, key, t.handOff(), "after the last reader's release")
	})
}
