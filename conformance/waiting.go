package conformance

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

var waitingChecks = []Check{
	{
		Name: "WaiterGetsReleasedKey",
		Rule: "rule 9: no waiter stays parked on a key that was released",
		run:  waiterGetsReleasedKey,
	},
	{
		Name: "WaiterGetsExpiredKey",
		Rule: "rules 3 and 9: a waiter gets the key of a dead holder after its TTL and Guarantees.MaxLate, and not before, " +
			"whatever the bytes and length of the key",
		run: waiterGetsExpiredKey,
	},
	{
		Name:  "PushIsPrompt",
		Rule:  wakeRule,
		Needs: []Need{needsPush},
		lasts: time.Minute, // if a client can have few leases, one situation is measured after the other
		run:   pushIsPrompt,
	},
	{
		Name: "NoLostWakeUp",
		Rule: "rule 9: no release is missed, however it meets a waiter that is just coming",
		run:  noLostWakeUp,
	},
	{
		Name:  "ManyWaitersDrain",
		Rule:  "rule 9: no waiter stays parked on a free key: as many as there are get their turn",
		lasts: 30 * time.Second, // if waiters are many, they have twice the time
		run:   manyWaitersDrain,
	},
	{
		Name: "WaitingKeepsNobodyOut",
		Rule: "rule 9: a key whose waiters have all been served or have left is free",
		run:  waitingKeepsNobodyOut,
	},
	{
		Name: "WaiterOutlastsShortenedLease",
		Rule: "rule 9: wake-ups are hints: a waiter also gets a key whose holder's TTL became shorter while it waited",
		run:  waiterOutlastsShortenedLease,
	},
	{
		Name: "WaitOutlivesOwnTTL",
		Rule: "rule 9: a waiter waits for as long as its context lives, even longer than the TTL that it asks for",
		run:  waitOutlivesOwnTTL,
	},
}

const wakeRule = "Guarantees.Wake: where it is WakePush, a release wakes a waiter, and so does a Break; the waiter " +
	"does not find out by its timer"

func waiterGetsReleasedKey(t *trial) {
	for _, client := range []backend.Backend{t.a, t.b} {
		g := t.acquire(t.a, t.key, t.long())
		w := t.wait(client, t.key, t.long())
		t.arrived(t.key, 1)
		w.stillWaits(t, g, t.rule)
		t.release(g)
		next := w.granted(t, t.handOff(), "after release")
		if least := backend.Deadline(g.after, t.kept(t.long())); next.Deadline().Before(least) {
			t.fatalf("the waiter's lease ends %v before its TTL", least.Sub(next.Deadline()))
		}
		t.heldBy(next)
		t.release(next)
		t.free(t.b, t.key, "after the waiter's release")
	}
}

func waiterGetsExpiredKey(t *trial) {
	ends := []string{"", "/ \t\r\n\x00\xff%41{*}\\'\"", "", strings.Repeat("k", backend.MaxKeyLen/2)}
	t.inChunks(2*len(ends), 2, func(i int) {
		client, key := t.a, t.newKey()+ends[i/2]
		if i%2 == 0 {
			client = t.b
		}
		g := t.acquire(t.a, key, t.short())
		w := t.wait(client, key, t.long())
		next := w.granted(t, t.g.Round(t.short())+t.handOff(), "after the holder's expiry")
		if early := g.Deadline().Sub(next.after); early > 0 {
			t.doubleGrant("a waiter was granted the key %v before the holder's deadline", early)
		}
		t.refused(t.b, next)
		t.release(next)
	})
	t.waitersMeetExpiry()
}

// waitersMeetExpiry starts waiters from shortly before the end of a dead holder's lease until shortly after, and some
// long after.
func (t *trial) waitersMeetExpiry() {
	const waiters, apart = 24, 500 * time.Microsecond
	t.inChunks(waiters, 2, func(i int) {
		g := t.acquire(t.a, t.newKey(), t.short())
		time.Sleep(time.Until(g.after.Add(t.g.Round(g.ttl) + (time.Duration(i)-waiters*2/3)*apart)))
		w := t.wait(t.client(i), g.key, t.long())
		t.release(w.granted(t, t.handOff(), "after the holder's expiry, which met the waiter coming"))
	})
	modes := t.modes()
	t.inChunks(2*len(modes)*len(modes), 2, func(i int) {
		holds, waits := modes[i/2%len(modes)], modes[i/2/len(modes)]
		g := t.getterOf(holds)(t.a, t.newKey(), t.short())
		t.outlast(t.lastRefusal(g.after, g.ttl).Add(t.short() / 2)) // nobody has requested the key since
		w := t.begin(t.ctx, t.client(i), backend.Request{Key: g.key, Owner: backend.NewOwner(), TTL: t.long(), Wait: true,
			Shared: waits})
		t.release(w.granted(t, t.handOff(), "after the holder's expiry, long before the waiter came"))
	})
}

// pushIsPrompt measures how soon waiters learn of releases. Some waiters have waited for a moment, others for a second.
// A machine that is too busy gets a second and a third chance. They do not help a waiter that polls, because its delays
// vary.
func pushIsPrompt(t *trial) {
	const keys, rounds, longRounds, chances = 3, 3, 3, 3
	defer t.watchStore()()
	first := &pushedWaiters{who: "a waiter"}
	behind := &pushedWaiters{who: "a waiter behind another"}
	patient := &pushedWaiters{who: "a waiter of more than a second"}
	far := &pushedWaiters{who: "a waiter behind several others"}
	odd := &pushedWaiters{who: "a waiter for a key of odd bytes"}
	long := &pushedWaiters{who: "a waiter for a long key"}
	again := &pushedWaiters{who: "a waiter for a key whose holder was broken before"}
	ways := t.pushWays()
	places := []*pushedWaiters{first, behind, patient, far, odd, long, again}
	for _, way := range ways {
		places = append(places, way.waiters)
	}
	for chance := 1; ; chance++ {
		t.inChunks(keys+longRounds+3+len(ways), 5, func(i int) {
			key := t.newKey()
			if n := i - keys - longRounds - 3; n >= 0 {
				for round := range rounds {
					ways[n].push(key, round, ways[n].waiters)
				}
				return
			}
			served := []*pushedWaiters{first, behind}
			switch i - keys {
			case 0, 1, 2:
				t.pushes(key, time.Second, patient, patient, far, far, far)
				return
			case longRounds:
				key += "/ \t\r\n\x00\xff%41{*}\\'\""
				served = []*pushedWaiters{odd, odd}
			case longRounds + 1:
				key += strings.Repeat("k", backend.MaxKeyLen-len(key))
				served = []*pushedWaiters{long, long}
			case longRounds + 2:
				served = []*pushedWaiters{again, again}
				t.breaksOnce(key)
			}
			for range rounds {
				t.pushes(key, pushedAfter, served...)
			}
		})
		late := slices.DeleteFunc(slices.Clone(places), (*pushedWaiters).prompt)
		if len(late) == 0 {
			return
		}
		if chance == chances {
			t.notInTime(t.rule, "%s gets a released key after %v (median of %d), as if it found out by a timer",
				late[0].who, late[0].median(), len(late[0].took))
		}
	}
}

// breaksOnce breaks a lease of key, if the store supports Break.
func (t *trial) breaksOnce(key string) {
	if breaker, ok := t.b.(backend.Breaker); ok {
		t.mustBreak(breaker, t.acquire(t.a, key, t.long()))
	}
}

// pushedAfter is the shortest time that a waiter waits before a release.
const pushedAfter = 200 * time.Millisecond

// pushes starts one waiter for each of places, and releases the key after the given time and a little more. Each waiter
// then releases the key to the next one.
func (t *trial) pushes(key string, after time.Duration, places ...*pushedWaiters) {
	g := t.acquire(t.a, key, t.long())
	asked := g.after.Sub(g.before)
	var waits []*waiting
	for i := range places {
		waits = append(waits, t.wait(t.b, key, t.long()))
		t.arrived(key, i+1)
	}
	time.Sleep(after + rand.N(pushedAfter)) // until a growing poll interval has grown
	for _, place := range places {
		t.release(g)
		turn := place.add(t, waits, asked)
		g = waits[turn].grant
		waits = slices.Delete(waits, turn, turn+1)
		if len(places) > 2 {
			time.Sleep(rand.N(pushedAfter / 2)) // so that timers that began together are out of step with the releases
		}
	}
	t.release(g)
}

func noLostWakeUp(t *trial) {
	const (
		workers = 4 // each on a key of its own
		rounds  = 100
		atMost  = 4 * time.Second
	)
	end := time.Now().Add(atMost)
	t.inChunks(workers, 2, func(i int) {
		key := t.newKey()
		waiter := t.b
		if i%4 == 3 {
			waiter = t.a
		}
		for range t.rounds(rounds, end) {
			g := t.acquire(t.a, key, t.long())
			w := t.wait(waiter, key, t.long())
			// The release happens before, during or after the waiter's first attempt, or while the waiter goes to sleep.
			time.Sleep(rand.N(2 * time.Millisecond))
			t.release(g)
			t.release(w.granted(t, t.handOff(), "after a release that met the waiter coming"))
		}
	})
}

func manyWaitersDrain(t *trial) {
	const quick, fast = 20 * time.Millisecond, 2 * time.Millisecond // a slower store needs too long for so many turns
	n, patience := min(32, t.h.Many/2), 30*time.Second+t.g.MaxLate
	if usual := t.usual(); t.g.Wake == backend.WakePush && usual <= fast && t.h.Many >= 256 {
		n = 136 // enough to find a queue that holds only 256
		patience += 30 * time.Second
	} else if t.g.Wake == backend.WakePush && usual <= quick {
		n = min(72, t.h.Many/2) // enough to find one that holds only 128
	}
	g := t.acquire(t.a, t.key, t.long())
	done := make(chan struct{})
	t.spawn(func() {
		defer close(done)
		t.together(2*n, func(i int) {
			client, begun := t.client(i), time.Now()
			g, err := t.requestKey(t.ctx, client, t.key, t.long(), true)
			if err != nil {
				t.unavailable(err, begun)
				t.fatalf("waiting Acquire: %v", err)
			}
			t.release(g)
		})
	})
	t.arrived(t.key, 2*n)
	t.release(g)
	if !t.within(patience, done) {
		t.notInTime(t.ruleText(9), "%d waiters have not all had their turn within %v", 2*n, patience)
	}
	t.free(t.b, t.key, "after all waiters")
}

func waitingKeepsNobodyOut(t *trial) {
	g := t.acquire(t.a, t.key, t.long())
	left := []*waiting{t.wait(t.a, t.key, t.long()), t.wait(t.b, t.key, t.long())}
	t.arrived(t.key, 2)
	served := t.wait(t.b, t.key, t.long())
	t.arrived(t.key, 3)
	for _, w := range left {
		w.cancelAndFail(t)
	}
	t.release(g)
	t.release(served.granted(t, t.handOff(), "after release, with waiters before it that were cancelled"))
	t.becomesFree(t.a, t.key, t.handOff(), "after the last waiter's release")
	(&raced{t: t, keys: []string{t.key}}).stayFree()
	for range 10 {
		t.free(t.a, t.key, "with nobody waiting")
		t.free(t.b, t.key, "with nobody waiting")
	}
}

func waiterOutlastsShortenedLease(t *trial) {
	t.eachRenewal(1, func(_ int, way renewal) {
		g := t.acquire(t.a, t.newKey(), t.long())
		w := t.wait(t.b, g.key, t.long())
		t.arrived(g.key, 1)
		t.renewBy(g, t.short(), func() error { return way.renew(t.ctx, g, t.short()) })
		next := w.granted(t, t.g.Round(t.short())+t.handOff(), "after the holder's expiry, which "+way.what+
			" had brought nearer")
		if early := g.Deadline().Sub(next.after); early > 0 {
			t.doubleGrant("a waiter was granted the key %v before the holder's deadline", early)
		}
		t.release(next)
	})
}

func waitOutlivesOwnTTL(t *trial) {
	t.together(3, func(i int) {
		switch i {
		case 0:
			t.outwaits(t.short(), t.outwaited())
		case 1:
			t.outwaits(4*t.short(), 2*t.short())
		default:
			t.leavesLate()
		}
	})
}

// leavesLate cancels a wait that has taken longer than its own TTL. The wait must leave nothing behind.
func (t *trial) leavesLate() {
	g := t.acquire(t.a, t.newKey(), t.long())
	w := t.wait(t.b, g.key, t.short())
	t.arrived(g.key, 1)
	time.Sleep(t.outwaited())
	w.cancelAndFail(t)
	t.queueAtMostOf(g.key, 0)
	t.release(g)
	t.becomesFree(t.a, g.key, time.Second+t.g.MaxLate, "after a wait that was cancelled when its TTL was over")
}

// outwaits waits for long with a request for ttl, and then checks that the lease has the whole ttl.
func (t *trial) outwaits(ttl, long time.Duration) {
	ttl = t.g.Round(ttl)
	g := t.acquire(t.a, t.newKey(), t.long())
	w := t.wait(t.b, g.key, ttl)
	t.arrived(g.key, 1)
	time.Sleep(long)
	w.stillWaits(t, g, t.rule)
	before := time.Now()
	t.release(g)
	next := w.granted(t, t.handOff(), "after release")
	// The request that was granted may have been under way before the release, but not for the whole wait.
	least := backend.Deadline(before, t.kept(ttl))
	switch short := least.Sub(next.Deadline()); {
	case short > min(long, ttl)*3/4 && t.stretch > 1: // a request may hang that long once, but not in a repeated trial
		t.fatalf("a lease granted after a wait of %v is %v short of its TTL of %v", long, short, ttl)
	case short > min(min(long, ttl)*3/4, ttl/2):
		t.tooLate("a lease granted after a wait of %v is %v short of its TTL of %v", long, short, ttl)
	}
	t.refused(t.a, next)
	t.release(next)
}
