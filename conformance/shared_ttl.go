package conformance

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// Checks of the TTLs of readers.
var sharedTTLChecks = []Check{
	{
		Name: "ReaderTTL",
		Rule: "rules 2 and 3: a shared lease lives for its TTL, and the key of a dead reader is free by its TTL and " +
			"Guarantees.MaxLate",
		run: readerTTL,
	},
	{
		Name: "DeadReaderEndsByOwnTTL",
		Rule: "rule 3: a dead reader is gone by its own TTL and Guarantees.MaxLate, although others renew, come and leave",
		run:  deadReaderEndsByOwnTTL,
	},
	{
		Name: "ShortReaderSparesLong",
		Rule: "rule 1: no request for one shared lease ends another: a short TTL does not cut a long one, however it " +
			"was requested",
		run: shortReaderSparesLong,
	},
	{
		Name: "WriterGetsKeyOfDeadReaders",
		Rule: "rules 3 and 9: a writer has the key of readers that died when the last of their TTLs has run out, and " +
			"Guarantees.MaxLate has passed",
		run: writerGetsKeyOfDeadReaders,
	},
	{
		Name: "SharedWaitOutlivesOwnTTL",
		Rule: "rule 9: readers and writers wait for as long as their context lives, and then have their whole TTL",
		run:  sharedWaitOutlivesOwnTTL,
	},
}

// readerTTL requests the key exclusively around the expiry of its only reader, at many phases.
func readerTTL(t *trial) {
	t.together(min(60, t.h.Many), func(i int) {
		time.Sleep(rand.N(t.short()))
		ttl := t.short() + rand.N(t.short()/4)
		g := t.read(t.a, t.newKey(), ttl)
		t.keepsDeadline(g, ttl, g.before, g.after, "shared Acquire")
		if i%3 == 0 {
			before := time.Now()
			t.renew(g, ttl)
			g.before, g.after = before, time.Now()
			t.keepsDeadline(g, ttl, g.before, g.after, "Renew of a shared lease")
		}
		time.Sleep(ttl/2 + rand.N(ttl/8))
		if g.live(time.Now().Add(ttl / 8)) {
			t.refused(t.b, g)
		}
		time.Sleep(time.Until(g.Deadline()) - backend.Margin(ttl) - rand.N(5*time.Millisecond))
		if i%2 == 0 { // a single attempt, so that no other request can end the lease
			t.outlast(t.lastRefusal(g.after, ttl).Add(time.Millisecond))
		}
		t.succeeds(t.b, g, 3*time.Millisecond+rand.N(4*time.Millisecond))
	})
}

// An activity is what others do with a key while one of its readers is dead.
type activity struct {
	what string
	do   func(key string, others []*grant)
}

// activities returns kinds of requests that must not prolong the lease of a dead reader.
func (t *trial) activities() []activity {
	kinds := []activity{
		{"new readers came", func(key string, _ []*grant) {
			t.release(t.read(t.a, key, 2*t.long()))
			t.release(t.read(t.b, key, t.short()))
		}},
		{"attempts were refused", func(_ string, others []*grant) {
			t.refused(t.a, others[0])
			t.refused(t.b, others[0])
		}},
		{"nothing happened", func(string, []*grant) {}},
	}
	for _, way := range t.renewals() {
		kinds = append(kinds, activity{"others were renewed by " + way.what, func(_ string, others []*grant) {
			for _, g := range others {
				g.ttl = 2 * t.long()
				t.renewBy(g, g.ttl, func() error { return way.renew(t.ctx, g, g.ttl) })
			}
		}})
	}
	return kinds
}

func deadReaderEndsByOwnTTL(t *trial) {
	kinds := t.activities()
	t.inChunks(3*len(kinds), 5, func(i int) {
		kind, key := kinds[i/3], t.newKey()
		var dead *grant
		var others []*grant
		if i%3 == 2 {
			dead, others = t.entersWithOthers(key, i/3)
		} else {
			if i%3 == 0 { // the dead reader is neither the first nor the last
				others = append(others, t.read(t.a, key, t.long()))
			}
			dead = t.read(t.a, key, t.short())
			others = append(others, t.read(t.a, key, t.long()), t.read(t.b, key, t.long()))
		}
		last := t.lastRefusal(dead.after, dead.ttl)
		for time.Now().Before(last) {
			kind.do(key, others)
			time.Sleep(t.short() / 16)
		}
		when := "a dead reader's TTL has run out, and meanwhile " + kind.what
		if !t.within(soon, dead.Lost()) {
			t.breaks(6, "%s: its Lost is not closed", when)
		}
		t.outlast(last.Add(time.Millisecond))
		t.readersKeepOut(others, when)
		t.notBrokenAlike(dead, "that has expired beside others")
		t.release(t.read(t.client(i), key, t.long())) // a new reader may still enter
		for _, g := range others {
			t.release(g)
		}
		t.mustBeFree(t.b, key, when+"; the others have released")
	})
}

// entersWithOthers makes readers wait behind a writer. They enter together when the writer releases the key, or when
// the writer, which waits for another reader, leaves. One of them, whose place depends on i, has a short TTL.
func (t *trial) entersWithOthers(key string, i int) (brief *grant, others []*grant) {
	leaves, at := i%2 == 0, (i+1)%3
	var writer *grant
	var w *waiting
	queued := 0
	if leaves {
		others = append(others, t.read(t.b, key, t.long()))
		w = t.wait(t.a, key, t.long())
		queued++
		t.arrived(key, queued)
	} else {
		writer = t.acquire(t.b, key, t.long())
	}
	var waits []*waiting
	for j := range 3 {
		ttl := t.long()
		if j == at {
			ttl = t.short()
		}
		waits = append(waits, t.waitToRead(t.client(j/2), key, ttl))
		t.arrived(key, queued+j+1)
	}
	if leaves {
		w.cancelAndFail(t)
	} else {
		t.release(writer)
	}
	readers := t.readersEnter(waits, t.handOff(), "after the end of the writer before them")
	brief = readers[at]
	return brief, append(others, slices.Delete(readers, at, at+1)...)
}

// shortReaderSparesLong ends short leases in every way. Long leases from before and after them must survive, also if
// the short one came last.
func shortReaderSparesLong(t *trial) {
	expires := func(g *grant) { t.expire(g) }
	ends := map[string]func(g *grant){
		"ran out":                  expires,
		"was released":             func(g *grant) { t.release(g) },
		"was shortened, and ended": func(g *grant) { t.renew(g, t.short()); expires(g) },
		"was shortened in a batch": func(g *grant) {
			if _, ok := g.client.(backend.BatchRenewer); ok {
				t.renewInBatch(g, t.short())
			}
			expires(g)
		},
		"was extended, and released": func(g *grant) { t.renew(g, 2*t.long()); t.renew(g, t.long()); t.release(g) },
	}
	var ways []string
	for what := range ends {
		ways = append(ways, what)
	}
	t.inChunks(2*len(ways), 3, func(i int) {
		what, key := ways[i/2], t.newKey()
		var long []*grant
		stays := func(b backend.Backend) { long = append(long, t.read(b, key, t.long())) }
		stays(t.a)
		ttl, last := t.awaited(), i%2 == 0
		if last { // no reader that stays comes after the short one
			ttl = t.short()
			stays(t.b)
		}
		brief := t.read(t.client(i), key, ttl)
		if !last {
			stays(t.b)
		}
		deadlines := []time.Time{long[0].Deadline(), long[1].Deadline()}
		ends[what](brief)
		for j, g := range long {
			if !t.sameDeadline(g, deadlines[j]) {
				t.fatalf("the deadline of a reader has moved as another one %s", what)
			}
			t.refusedFor(t.b, g, t.short()/4)
		}
		t.outlast(t.lastRefusal(brief.after, ttl)) // a long lease must not have the expiry of the short one
		t.readersKeepOut(long, "beside a reader whose lease "+what)
		t.release(long[i%2])
		t.refusedFor(t.a, long[1-i%2], t.short()/4)
		t.release(long[1-i%2])
		t.mustBeFree(t.b, key, "after the release of all readers")
	})
}

func writerGetsKeyOfDeadReaders(t *trial) {
	defer t.watchStore()()
	t.inChunks(8, 4+newcomers, func(i int) {
		if i >= 6 {
			t.waiterComesLate(i == 6)
			return
		}
		key, base := t.newKey(), t.awaited()
		ttls := [][]time.Duration{{base}, {base, base * 3 / 2}, {base * 3 / 2, base}, {base, base * 5 / 4, base}}[i%4]
		var last *grant
		for j, ttl := range ttls {
			if g := t.read(t.client(j), key, t.g.Round(ttl)); last == nil || g.Deadline().After(last.Deadline()) {
				last = g
			}
		}
		w := t.wait(t.client(i), key, t.long())
		switch {
		case i < 3:
			t.arrived(key, 1)
			t.spawn(func() { t.othersCome(w, last, i) })
		case i == 3: // a reader waits behind the writer
			t.arrived(key, 1)
			behind := t.waitToRead(t.client(i+1), key, t.long())
			t.spawn(func() {
				<-behind.done
				t.hadTurn(w, behind.grant, "a reader that waited behind a writer")
			})
		}
		const most = time.Second
		if late := t.lateness(last, w, last.after); late > most {
			t.notInTime(t.rule, "a writer has the key of dead readers %v later than it was free", late.Round(tick))
		}
		t.becomesFree(t.b, key, t.handOff(), "after the writer's release")
	})
	preludes := t.preludes()
	t.inChunks(2*len(preludes), 4, func(i int) { t.writerOutwaitsPrelude(preludes[i/2], i) })
}

// waiterComesLate makes a writer wait for a reader that dies, or a reader for a writer, when most of the TTL has passed.
// The waiter must not wait for the whole TTL. A store may poll once a second, so the median of a few waiters counts.
func (t *trial) waiterComesLate(writes bool) {
	const age, most, each = 2 * time.Second, time.Second, 3
	lates := make([]time.Duration, each)
	t.inChunks(each, 1, func(i int) {
		g := t.getterOf(writes)(t.a, t.newKey(), min(t.g.Round(age+t.awaited()), t.longest()))
		time.Sleep(age)
		w := t.begin(t.ctx, t.b, backend.Request{Key: g.key, Owner: backend.NewOwner(), TTL: t.long(), Wait: true,
			Shared: !writes})
		lates[i] = t.lateness(g, w, g.after)
	})
	if slices.Sort(lates); lates[each/2] > most {
		t.notInTime(t.rule, "a waiter that came late has the key of a dead holder%s %v later than it was free "+
			"(median of %d)", inMode(writes), lates[each/2].Round(tick), each)
	}
}

// hadTurn releases g, a lease of the key that w waits for, unless g is nil. It fails if w has not had the key before.
func (t *trial) hadTurn(w *waiting, g *grant, who string) {
	if g != nil && !w.ended() {
		t.breaks(9, "%s was granted the key of dead readers before a writer that waits for it", who)
	}
	if g != nil {
		t.release(g)
	}
}

// newcomers is how many readers come to wait behind a writer as the readers before it die.
const newcomers = 6

// othersCome makes requests of one kind for the key that w waits for, until w has had its turn. last is the last of the
// dead readers that w waits for.
func (t *trial) othersCome(w *waiting, last *grant, kind int) {
	pause := t.short() / 32
	if kind == 2 { // readers that wait, and come as the last of the readers dies
		time.Sleep(time.Until(last.Deadline()) - pause)
	}
	for n := 0; !w.ended() && !t.ended(); n++ {
		switch {
		case kind == 0:
			g, _ := t.share(t.client(n), w.key, t.long())
			t.hadTurn(w, g, "a reader that does not wait")
		case kind == 1:
			g, _ := t.attempt(t.client(n), w.key, t.long())
			t.hadTurn(w, g, "a writer that does not wait")
		case n < min(newcomers, t.h.Many-4):
			reader := t.waitToRead(t.client(n), w.key, t.long())
			t.spawn(func() {
				<-reader.done
				t.hadTurn(w, reader.grant, "a reader that came later")
			})
		}
		time.Sleep(pause)
	}
}

// sharedWaitOutlivesOwnTTL makes readers wait behind a writer that holds the key or waits for it, and a writer behind a
// reader, for longer than the TTLs that they request.
func sharedWaitOutlivesOwnTTL(t *trial) {
	ttl := t.g.Round(2 * t.short())
	t.inChunks(3, 4, func(i int) {
		key := t.newKey()
		var held *grant
		var leaves *waiting
		var waits []*waiting
		switch i {
		case 0:
			held = t.acquire(t.a, key, t.long())
			waits = append(waits, t.waitToRead(t.a, key, ttl), t.waitToRead(t.b, key, ttl))
		case 1:
			held = t.read(t.a, key, t.long())
			waits = append(waits, t.wait(t.b, key, ttl))
		default:
			held = t.read(t.b, key, t.long())
			leaves = t.wait(t.a, key, ttl)
			t.arrived(key, 1)
			waits = append(waits, t.waitToRead(t.a, key, ttl), t.waitToRead(t.b, key, ttl))
		}
		t.arrived(key, len(waits)+i/2)
		time.Sleep(ttl + t.g.MaxLate + t.short())
		if i > 0 {
			t.noReaderEnters(key, "behind a writer that has waited for longer than its own TTL")
		}
		for _, w := range waits {
			w.stillWaits(t, held, t.rule)
		}
		before := time.Now()
		if leaves != nil {
			leaves.cancelAndFail(t)
			t.renew(held, t.long())
		} else {
			t.release(held)
		}
		for _, g := range t.readersEnter(waits, t.handOff(), "after a wait longer than its TTL") {
			if short := backend.Deadline(before, t.kept(ttl)).Sub(g.Deadline()); short > ttl/2 {
				t.tooLate("a lease granted after a wait of more than its TTL is %v short of it, %v", short, ttl)
			}
			t.refused(t.client(i), g)
			t.renew(g, t.long())
		}
		time.Sleep(ttl)
		for _, w := range waits {
			t.refused(t.b, w.grant)
			t.release(w.grant)
		}
		if leaves != nil {
			t.release(held)
		}
		t.becomesFree(t.b, key, t.handOff(), "after the last release")
	})
}
