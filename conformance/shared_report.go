package conformance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// Checks of what others see of readers.
var sharedReportChecks = []Check{
	{
		Name: "InspectCountsReaders",
		Rule: "Holder.Shared is how many shared leases hold the key, 0 for an exclusive one; the other fields are of " +
			"the one that ends last",
		run: inspectCountsReaders,
	},
	{
		Name: "ListReturnsSharedKeysOnce",
		Rule: "Lister.List returns each key that readers hold once, however many they are, and no key that they held before",
		run:  listReturnsSharedKeysOnce,
	},
	{
		Name: "SharedTokens",
		Rule: "rule 7: an exclusive token is above every token granted before on its key, shared or not, and below " +
			"every one after",
		Needs: []Need{needsTokens},
		run:   sharedTokensIncrease,
	},
	{
		Name: "ReadersThatLookAlike",
		Rule: "rules 1 and 5: a reader is known by all of its name, and by its key: one like it that shares the key is " +
			"another, and ends by itself",
		run: readersThatLookAlike,
	},
	{
		Name: "SharedExtremesAreAccepted",
		Rule: "every store with shared leases takes TTLs from a nanosecond to Guarantees.MaxTTL for them, and owners up " +
			"to MaxOwnerLen, of any characters, also with the longest key",
		run: sharedExtremesAreAccepted,
	},
	{
		Name: "SharedBadInputIsRefused",
		Rule: "bad input of a shared request is ErrInvalid before any request, and leaves nothing behind",
		run:  sharedBadInputIsRefused,
	},
}

func inspectCountsReaders(t *trial) {
	dead := t.read(t.a, t.newKey(), t.short())
	t.expire(dead)
	t.staysFree(dead.key, "after the expiry of its only reader")
	orders := [][]int{{1, 1, 0}, {0, 1, 0}} // in both, the reader whose lease ends last releases first
	t.inChunks(len(orders), 5, func(i int) { t.countsReaders(t.newKey(), i == 1, orders[i]) })
}

// countsReaders compares Inspect and refusals with the readers of key, who release in the given order. If renewed is
// set, renewals change which lease ends last.
func (t *trial) countsReaders(key string, renewed bool, order []int) {
	writer := t.acquire(t.a, key, t.long())
	if h := t.inspect(key); h.Shared != 0 {
		t.fatalf("Inspect returns %d shared leases of a key that is held exclusively", h.Shared)
	}
	t.refusalNames(t.b, true, []*grant{writer}, 0)
	t.release(writer)
	brief := t.awaited()
	ttls := []time.Duration{t.long(), 2 * t.long(), brief, t.long() * 3 / 2}
	var readers []*grant
	for i, ttl := range ttls {
		readers = append(readers, t.read(t.client(i), key, ttl))
		t.holdersAre(readers, "of a shared key")
		t.refusalNames(t.client(i), false, readers, 0)
	}
	t.expire(readers[2])
	readers = slices.Delete(readers, 2, 3)
	t.refusalNames(t.b, false, readers, 0)
	t.holdersAre(readers, "after the expiry of one of several readers")
	w := t.wait(t.a, key, t.long())
	t.arrived(key, 1)
	late := t.waitToRead(t.b, key, t.long())
	t.arrived(key, 2)
	if renewed {
		for i, ttl := range []time.Duration{2 * t.long(), t.long()} {
			t.renew(readers[i], ttl)
			readers[i].ttl = ttl
		}
	}
	for len(readers) > 0 {
		t.holdersAre(readers, fmt.Sprintf("of a key that others wait for, with %d readers", len(readers)))
		for _, shared := range []bool{true, false} {
			t.refusalNames(t.b, shared, readers, 2)
		}
		at := order[len(order)-len(readers)]
		t.release(readers[at])
		readers = slices.Delete(readers, at, at+1)
	}
	g := w.granted(t, t.handOff(), "after the release of all readers")
	t.describes(g, t.long())
	if h := t.inspect(key); h.Shared != 0 && g.live(time.Now()) {
		t.fatalf("Inspect returns %d shared leases of a key that is held exclusively, after readers", h.Shared)
	}
	t.refusalNames(t.a, true, []*grant{g}, 2)
	t.release(g)
	t.release(late.granted(t, t.handOff(), "after the writer's release"))
	t.staysFree(key, "after the last reader's release")
}

// refusalNames fails unless a refusal that names a holder describes holders as namesReader requires, and counts at most
// the given number of waiters.
func (t *trial) refusalNames(b backend.Backend, shared bool, holders []*grant, waiters int) {
	begun := time.Now()
	_, err := t.request(t.ctx, b, backend.Request{Key: holders[0].key, Owner: backend.NewOwner(), TTL: t.long(),
		Shared: shared})
	t.lateOnTimeout(err, begun)
	if !errors.Is(err, backend.ErrHeld) {
		t.fatalf("Acquire%s of a key that is held: %v, want ErrHeld", inMode(shared), err)
	}
	var held *backend.HeldError
	if !errors.As(err, &held) || !held.Holder.Held() {
		return // the store does not know the holder
	}
	want := len(holders)
	if !holders[0].shared {
		want = 0
	}
	if held.Holder.Shared != want && anyExpired(holders) {
		t.lateFor(ttlRule, false, "a reader's lease ended before a refusal counted it")
	}
	if held.Holder.Shared != want {
		t.fatalf("a HeldError counts %d shared leases, want %d", held.Holder.Shared, want)
	}
	if held.Holder.Waiters > waiters {
		t.fatalf("a HeldError counts %d waiters, want %d, or -1: who asks does not wait", held.Holder.Waiters, waiters)
	}
	t.namesReader(held.Holder, holders, "HeldError")
}

func listReturnsSharedKeysOnce(t *trial) {
	lister := t.lister()
	prefix := t.newKey()
	several, one, before := prefix+"/several", prefix+"/one", prefix+"/before"
	t.read(t.b, several, t.short()) // it expires before dead does
	readers := t.readers(several, 3, t.long())
	single := t.read(t.b, one, t.long())
	dead := t.read(t.a, before, t.short())
	t.release(t.read(t.b, before, t.long()))
	w := t.wait(t.a, one, t.long())
	t.arrived(one, 1)
	held := t.acquire(t.a, prefix+"/exclusive", t.long())
	keys := t.list(lister, prefix)
	for _, key := range []string{several, one, held.key} {
		if !keys[key] {
			t.fatalf("List lacks %s, which is held", show(key))
		}
	}
	t.expire(dead)
	t.release(readers[0])
	t.release(readers[2])
	t.release(single)
	t.release(w.granted(t, t.handOff(), "after the only reader's release"))
	gone := func() bool {
		keys = t.list(lister, prefix)
		return !keys[before] && !keys[one]
	}
	if !t.poll(t.handOff(), gone) {
		t.fatalf("List returns keys that readers do not hold any more: %v", keys)
	}
	if !keys[several] {
		t.fatalf("List lacks %s, which one of three readers still holds", show(several))
	}
	t.listsCrowd(lister)
}

// listsCrowd lists many keys with three readers each. A store that reads a list in pages of its leases may have the
// readers of one key on two pages.
func (t *trial) listsCrowd(lister backend.Lister) {
	const most, each = 150, 3
	n, prefix := max(1, min(most, (t.h.Many-each)*2/each)), t.newKey()+"/"
	readers, end := make([]*grant, n*each), time.Now().Add(min(batchBudget, t.long()/4))
	t.inTurns(len(readers), func(i int) {
		if i < turns || time.Now().Before(end) {
			readers[i] = t.read(t.client(i), fmt.Sprintf("%s%05d", prefix, i/each), t.long())
		}
	})
	readers = slices.DeleteFunc(readers, func(g *grant) bool { return g == nil })
	if missing := misses(t.list(lister, prefix), readers); missing != "" {
		if anyExpired(readers) {
			t.tooLate("a reader's lease ended before it was listed")
		}
		t.fatalf("List of keys with %d readers each %s", each, missing)
	}
	t.inTurns(len(readers), func(i int) { t.release(readers[i]) })
}

// tokensOfQueue makes readers and writers wait for each other. Their tokens must follow the order of grants, not of
// arrivals.
func (t *trial) tokensOfQueue(s *sharedTokens, key string) {
	first := t.acquire(t.b, key, t.long())
	s.granted(first, "grant of a free key")
	second := t.wait(t.a, key, t.long())
	t.arrived(key, 1)
	waits := []*waiting{t.waitToRead(t.b, key, t.long()), t.waitToRead(t.a, key, t.long())}
	t.arrived(key, 3)
	last := t.wait(t.b, key, t.long())
	t.arrived(key, 4)
	ends := func(g *grant) {
		t.release(g)
		s.ended(g)
	}
	ends(first)
	if !t.g.FIFO { // the writers may be granted the key first
		for _, w := range append(waits, second, last) {
			t.spawn(func() { t.release(w.granted(t, 2*t.handOff(), "after release")) })
		}
		return
	}
	g := second.granted(t, t.handOff(), "after release")
	s.granted(g, "grant to a writer that had waited")
	ends(g)
	readers := t.readersEnter(waits, t.handOff(), "after a writer")
	for _, r := range readers {
		s.granted(r, "grant to a reader that had waited behind two writers")
	}
	for _, r := range readers {
		ends(r)
	}
	g = last.granted(t, t.handOff(), "after readers")
	s.granted(g, "grant to a writer that had waited behind readers")
	ends(g)
}

// sharedTokensIncrease alternates at random between writers and groups of readers.
func sharedTokensIncrease(t *trial) {
	const rounds = 24
	end := time.Now().Add(4 * time.Second)
	t.inChunks(3, 8, func(i int) {
		key, s := t.newKey(), &sharedTokens{t: t}
		t.tokensOfQueue(&sharedTokens{t: t}, t.newKey()) // some of its waiters may still be running
		for n := range t.rounds(rounds, end) {
			client := t.client(n + i)
			if rand.N(2) == 0 {
				g := t.acquire(client, key, t.long())
				s.granted(g, "grant of a free key")
				waits := []*waiting{t.waitToRead(t.a, key, t.long()), t.waitToRead(t.b, key, t.long())}
				if n%4 == 0 {
					t.arrived(key, 2)
				}
				t.renew(g, t.long())
				t.release(g)
				s.ended(g)
				for _, r := range t.readersEnter(waits, t.handOff(), "after a writer") {
					s.granted(r, "grant to a reader that had waited")
					t.release(r)
				}
				s.ended(waits[0].grant)
				s.ended(waits[1].grant)
				continue
			}
			readers := t.readers(key, 1+rand.N(3), t.long())
			for _, r := range readers {
				s.granted(r, "grant to a reader")
			}
			var w *waiting
			if n%3 == 0 {
				w = t.wait(client, key, t.long())
			}
			for _, r := range readers {
				t.release(r)
				s.ended(r)
			}
			if w != nil {
				g := w.granted(t, t.handOff(), "after readers")
				s.granted(g, "grant to a writer that had waited")
				t.release(g)
				s.ended(g)
			}
		}
	})
}

func sharedBadInputIsRefused(t *trial) {
	good := backend.Request{Key: t.key, Owner: "owner", TTL: t.long(), Shared: true}
	for what, change := range map[string]func(*backend.Request){
		"TTL 0":           func(r *backend.Request) { r.TTL = 0 },
		"TTL over MaxTTL": func(r *backend.Request) { r.TTL = t.longest() + 1 },
		"empty owner":     func(r *backend.Request) { r.Owner = "" },
		"empty key":       func(r *backend.Request) { r.Key = "" },
		"too long a key":  func(r *backend.Request) { r.Key = string(make([]byte, backend.MaxKeyLen+1)) },
	} {
		for _, wait := range []bool{false, true} {
			r := good
			r.Wait = wait
			change(&r)
			if _, err := t.request(t.ctx, t.a, r); !errors.Is(err, backend.ErrInvalid) {
				t.errorf("shared Acquire with %s: %v, want ErrInvalid", what, err)
			}
		}
		t.staysFree(t.key, "after a shared Acquire with "+what)
	}
	g := t.read(t.b, t.key, t.long())
	for _, ttl := range []time.Duration{0, -1, t.longest() + 1} {
		if err := g.Renew(t.ctx, ttl); !errors.Is(err, backend.ErrInvalid) {
			t.errorf("Renew of a shared lease for %v: %v, want ErrInvalid", ttl, err)
		}
	}
	t.readersKeepOut([]*grant{g}, "after bad input")
	t.release(g)
	t.free(t.a, t.key, "after bad input")
}

// readAs is read for an owner of the given name.
func (t *trial) readAs(b backend.Backend, key, owner string) *grant {
	begun := time.Now()
	g, err := t.request(t.ctx, b, backend.Request{Key: key, Owner: owner, TTL: t.long(), Shared: true})
	t.lateOnTimeout(err, begun)
	if err != nil {
		t.fatalf("owner %s: shared Acquire of a key that nobody holds or waits for exclusively: %v", show(owner), err)
	}
	return g
}

func readersThatLookAlike(t *trial) {
	breaker, _ := t.b.(backend.Breaker)
	pairs := ownersAlike()
	t.inChunks(len(pairs), 2, func(i int) {
		p, key := pairs[i], t.newKey()
		if i%2 == 1 {
			p.one, p.two = p.two, p.one
		}
		one, two := t.readAs(t.a, key, p.one), t.readAs(t.client(i/2), key, p.two)
		when := fmt.Sprintf("readers %s and %s of one key", show(p.one), show(p.two))
		t.holdersAre([]*grant{one, two}, when)
		t.release(one)
		t.holdersAre([]*grant{two}, when+", of which the first has released")
		if breaker != nil {
			t.breaksNothing(breaker, key, p.one, when+": Break of the first, which has released")
		}
		t.renew(two, t.long())
		t.refused(t.a, two)
		t.release(two)
		t.mustBeFree(t.b, key, when+", which have both released")
	})
	t.readersOfKeysApart()
}

func sharedExtremesAreAccepted(t *trial) {
	t.servesLongestNames(true, false)
	t.servesLongestNames(false, true)
	owners := extremeOwners()
	t.inChunks(len(owners), 2, func(i int) { t.servesOwner(owners[i], true) })
	for _, owner := range owners {
		g := t.readAs(t.a, t.newKey(), owner)
		other := t.read(t.b, g.key, t.long())
		t.readersKeepOut([]*grant{g, other}, "beside owner "+show(owner))
		t.release(g)
		t.release(other)
	}
	for _, ttl := range []time.Duration{t.longest(), 31 * 24 * time.Hour, 25 * 24 * time.Hour, time.Hour,
		1900*time.Millisecond + t.g.MinTTL} {
		g := t.read(t.a, t.newKey(), min(ttl, t.longest()))
		t.keepsDeadline(g, g.ttl, g.before, g.after, "shared Acquire")
		t.holdersAre([]*grant{g}, "of a key that is shared for "+g.ttl.String())
		t.refused(t.b, g)
		t.renew(g, g.ttl)
		t.holdersAre([]*grant{g}, "of a key whose reader was renewed for "+g.ttl.String())
		t.release(g)
		t.free(t.b, g.key, "after the only reader's release")
	}
	for _, ttl := range []time.Duration{1, time.Microsecond,
		time.Millisecond} { // the lease may end before the reply arrives
		key := t.newKey()
		_, err := t.a.Acquire(t.ctx, backend.Request{Key: key, Owner: backend.NewOwner(), TTL: ttl, Shared: true})
		if err != nil && !errors.Is(err, backend.ErrLost) {
			t.fatalf("shared Acquire for %v: %v, want a lease or ErrLost", ttl, err)
		}
		t.becomesFree(t.b, key, t.g.Round(ttl)+t.handOff(), "after a tiny TTL")
	}
}
