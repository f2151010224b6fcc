package conformance

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// Checks of how readers and writers are woken.
var sharedWakeChecks = []Check{
	{
		Name: "LastReaderWakesWriter",
		Rule: "rule 9: a waiting writer has the key when the last of the readers before it has released or expired, and " +
			"not before",
		run: lastReaderWakesWriter,
	},
	{
		Name: "SharedNoLostWakeUp",
		Rule: "rule 9: no end of a lease, and no departure of a writer, is missed, however it meets a reader or writer " +
			"that is just coming",
		run: sharedNoLostWakeUp,
	},
	{
		Name: "SharedPushIsPrompt",
		Rule: "Guarantees.Wake: where it is WakePush, a release wakes readers and writers, and so does a Break; a writer " +
			"that leaves wakes readers behind it",
		Needs: []Need{needsPush},
		run:   sharedPushIsPrompt,
	},
}

func lastReaderWakesWriter(t *trial) {
	const n = 3
	t.inChunks(6, n+1, func(i int) {
		key := t.newKey()
		readers := t.readers(key, n, t.long())
		w := t.wait(t.client(i), key, t.long())
		t.arrived(key, 1)
		for len(readers) > 1 {
			at := i % len(readers)
			switch g := readers[at]; {
			case i == 4 || i == 5 && len(readers) == n: // the reader dies
				t.renew(g, t.short())
				g.ttl = t.short()
				t.expire(g)
			default:
				t.release(g)
			}
			readers = slices.Delete(readers, at, at+1)
			t.refused(t.client(i+1), readers[0])
			w.stillWaits(t, readers[0], t.rule)
			t.renew(readers[0], t.long())
			t.noReaderEnters(key, "behind a writer, when one of the readers before it has ended")
		}
		if i == 3 { // the last reader dies
			t.renew(readers[0], t.short())
		} else {
			t.release(readers[0])
		}
		g := w.granted(t, t.g.Round(t.short())+t.handOff(), "after the end of the last reader")
		if early := readers[0].Deadline().Sub(g.after); i == 3 && early > 0 {
			t.doubleGrant("a writer was granted the key %v before the last reader's deadline", early)
		}
		t.readRefused(g)
		switch i % 3 {
		case 0:
			t.release(g)
		case 1:
			t.breakOrRelease(t.b, g)
		default:
			t.renew(g, t.short())
			g.ttl = t.short()
			t.expire(g)
		}
		t.release(t.soonShared(t.client(i), key, "after the end of a writer that had waited"))
		t.release(t.wait(t.client(i), key, t.long()).granted(t, t.handOff(), "after the release of the only reader"))
		t.release(t.soonShared(t.client(i), key, "after the release of a writer that might have waited"))
		t.becomesFree(t.client(i), key, t.handOff(), "after the last release")
	})
}

func sharedNoLostWakeUp(t *trial) {
	const (
		workers = 8 // each on a key of its own
		rounds  = 40
		atMost  = 4 * time.Second
	)
	typical, end := t.typical(), time.Now().Add(atMost)
	t.inChunks(workers, 4, func(i int) {
		key, from, to := t.newKey(), t.client(i), t.client(i/4)
		pause := func() { time.Sleep(rand.N(2 * time.Millisecond)) }
		for range t.rounds(rounds, end) {
			switch i % 4 {
			case 3: // a writer leaves as the last reader before it releases
				reader := t.read(from, key, t.long())
				w := t.wait(to, key, t.long())
				t.arrived(key, 1)
				waits := []*waiting{t.waitToRead(to, key, t.long()), t.waitToRead(from, key, t.long())}
				t.arrived(key, 3)
				t.together(2, func(j int) {
					if j == 0 {
						time.Sleep(rand.N(2 * typical))
						w.cancel()
					} else {
						t.release(reader)
					}
				})
				t.eitherOr(w)
				for _, r := range t.readersEnter(waits, t.handOff(), "behind a writer that left as its turn came") {
					t.release(r)
				}
				key = t.newKey()
			case 0: // a writer arrives as the last readers release
				readers := []*grant{t.read(from, key, t.long()), t.read(to, key, t.long())}
				w := t.wait(to, key, t.long())
				pause()
				t.together(2, func(j int) { t.release(readers[j]) })
				t.release(w.granted(t, t.handOff(), "after releases of readers that met the writer coming"))
			case 1: // readers arrive as a writer releases
				g := t.acquire(from, key, t.long())
				waits := []*waiting{t.waitToRead(to, key, t.long()), t.waitToRead(from, key, t.long())}
				pause()
				t.release(g)
				for _, r := range t.readersEnter(waits, t.handOff(), "after a release that met the readers coming") {
					t.release(r)
				}
			default: // readers arrive as a waiting writer leaves
				reader := t.read(from, key, t.long())
				w := t.wait(to, key, t.long())
				waits := []*waiting{t.waitToRead(to, key, t.long()), t.waitToRead(from, key, t.long())}
				pause()
				w.cancel()
				for _, r := range t.readersEnter(waits, t.handOff(), "after a writer's cancellation that met the readers coming") {
					t.release(r)
				}
				t.release(reader)
				t.eitherOr(w)
				key = t.newKey() // the cancelled request may still reach the old key
			}
		}
	})
}

// sharedPushes are the kinds of waiters whose wake-ups sharedPushIsPrompt measures.
type sharedPushes struct {
	writer, reversed, again, broken     *pushedWaiters // writers
	readers, first, freed, behindBroken *pushedWaiters
}

// sharedPushIsPrompt measures how soon waiters learn that they may have the key. As in pushIsPrompt, a busy machine
// gets more chances.
func sharedPushIsPrompt(t *trial) {
	const keys, chances = 4, 3
	defer t.watchStore()()
	p := sharedPushes{
		writer:       &pushedWaiters{who: "a writer behind readers, of which the first releases last"},
		reversed:     &pushedWaiters{who: "a writer behind readers, of which the first releases first, the last renewed"},
		again:        &pushedWaiters{who: "a writer behind readers that had waited"},
		readers:      &pushedWaiters{who: "the last of three readers behind a writer that had waited"},
		first:        &pushedWaiters{who: "the last of two readers behind a writer"},
		freed:        &pushedWaiters{who: "the last of two readers behind a writer that leaves", more: 3},
		broken:       &pushedWaiters{who: "a writer behind a reader whose lease is broken"},
		behindBroken: &pushedWaiters{who: "the last of two readers behind a writer whose lease is broken"},
	}
	for chance := 1; ; chance++ {
		t.inChunks(keys, 6, func(i int) {
			// The releases are spread over the phase of a timer, so that few of them coincide with the timer by chance.
			spread := func() time.Duration {
				const each = pushedAfter / keys
				return pushedAfter + time.Duration(i)*each + rand.N(each)
			}
			t.together(2, func(j int) {
				if j == 0 {
					t.pushesShared(t.client(i), spread, p)
				} else {
					t.pushesFirst(t.client(i), spread, p)
				}
			})
		})
		late := slices.DeleteFunc([]*pushedWaiters{p.writer, p.reversed, p.again, p.broken, p.readers, p.first, p.freed,
			p.behindBroken}, (*pushedWaiters).prompt)
		if len(late) == 0 {
			return
		}
		if chance == chances {
			t.notInTime(t.rule, "%s gets a free key after %v (median of %d), as if it found out by a timer", late[0].who,
				late[0].median(), len(late[0].took))
		}
	}
}

// pushesShared measures how soon a writer, then readers, then readers behind a leaving writer, and then a writer behind
// all these readers learn that they may have the key. Each wait lasts for what spread returns, plus up to two times
// pushedAfter.
func (t *trial) pushesShared(b backend.Backend, spread func() time.Duration, p sharedPushes) {
	key := t.newKey()
	before := t.readers(key, 2, t.long())
	asked := before[0].after.Sub(before[0].before)
	w := t.wait(b, key, t.long())
	t.arrived(key, 1)
	var behind []*waiting
	for i := range 3 {
		behind = append(behind, t.waitToRead(t.client(i), key, t.long()))
		t.arrived(key, i+2)
	}
	time.Sleep(pushedAfter)
	t.release(before[1])
	time.Sleep(spread())
	t.release(before[0])
	p.writer.add(t, []*waiting{w}, asked)
	time.Sleep(pushedAfter)
	t.release(w.grant)
	p.readers.addAll(t, behind, asked)
	last := t.wait(b, key, t.long())
	t.arrived(key, 1)
	parked := []*waiting{t.waitToRead(t.a, key, t.long()), t.waitToRead(t.b, key, t.long())}
	t.arrived(key, 3)
	time.Sleep(spread())
	last.cancelAndFail(t)
	p.freed.addAll(t, parked, asked)
	last = t.wait(b, key, t.long())
	t.arrived(key, 1)
	time.Sleep(spread())
	for _, w := range append(behind, parked...) {
		t.release(w.grant)
	}
	p.again.add(t, []*waiting{last}, asked)
	t.release(last.grant)
}

// pushesFirst measures how soon readers behind a writer, then a writer behind readers, and then a writer and readers
// behind a lease that is broken, learn that they may have the key.
func (t *trial) pushesFirst(b backend.Backend, spread func() time.Duration, p sharedPushes) {
	held := t.acquire(t.a, t.newKey(), t.long())
	asked := held.after.Sub(held.before)
	behind := []*waiting{t.waitToRead(b, held.key, t.long()), t.waitToRead(t.a, held.key, t.long())}
	t.arrived(held.key, 2)
	time.Sleep(spread())
	t.release(held)
	p.first.addAll(t, behind, asked)
	t.release(behind[0].grant)
	t.release(behind[1].grant)
	readers := t.readers(t.newKey(), 2, t.long())
	w := t.wait(b, readers[0].key, t.long())
	t.arrived(w.key, 1)
	for _, way := range t.renewals() {
		t.renewBy(readers[1], t.long(), func() error { return way.renew(t.ctx, readers[1], t.long()) })
	}
	time.Sleep(spread())
	t.release(readers[0])
	time.Sleep(pushedAfter)
	t.release(readers[1])
	p.reversed.add(t, []*waiting{w}, asked)
	t.release(w.grant)
	breaker, ok := t.a.(backend.Breaker)
	if !ok {
		return
	}
	reader := t.read(t.a, t.newKey(), t.long())
	w = t.wait(b, reader.key, t.long())
	t.arrived(w.key, 1)
	time.Sleep(spread())
	t.mustBreak(breaker, reader)
	p.broken.add(t, []*waiting{w}, asked)
	t.release(w.grant)
	held = t.acquire(t.a, t.newKey(), t.long())
	behind = []*waiting{t.waitToRead(b, held.key, t.long()), t.waitToRead(t.a, held.key, t.long())}
	t.arrived(held.key, 2)
	time.Sleep(spread())
	t.mustBreak(breaker, held)
	p.behindBroken.addAll(t, behind, asked)
	t.release(behind[0].grant)
	t.release(behind[1].grant)
}

// addAll waits until all of waits have been granted the key, and records how long that took.
func (p *pushedWaiters) addAll(t *trial, waits []*waiting, asked time.Duration) {
	ticks := 0 // as in add
	for _, w := range waits {
		for !t.within(0, w.done) && ticks < int(t.handOff()/tick) {
			ticks++
		}
	}
	p.mu.Lock()
	p.took, p.requestTimes = append(p.took, ticks), append(p.requestTimes, asked)
	p.mu.Unlock()
	t.readersEnter(waits, tick, "after what kept them out")
}
