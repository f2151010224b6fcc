package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

var operateChecks = []Check{
	{
		Name: "ListReturnsHeldKeys",
		Rule: "Lister.List returns each held key that begins with the prefix once, whoever holds it, no other key, and not " +
			"for long a key whose lease has ended",
		run: listReturnsHeldKeys,
	},
	{
		Name: "BreakEndsOneLease",
		Rule: "Breaker.Break ends the lease of the owner that it names, whose next renewal is ErrLost, and wakes the next " +
			"waiter; it ends no other lease",
		run: breakEndsOneLease,
	},
	{
		Name:  "BreakSparesNext",
		Rule:  "Breaker.Break that meets the end of the lease that it names does not touch the next holder",
		Needs: []Need{needsLinked},
		run:   breakSparesNext,
	},
}

func listReturnsHeldKeys(t *trial) {
	lister := t.lister()
	key := t.newKey()
	_ = t.list(lister, key)
	other := t.acquire(t.a, key, t.long())
	if !t.list(lister, key)[key] {
		t.fatalf("List lacks a key that has been acquired since the last List of the same prefix")
	}
	ends := []string{"", "/", "/a", "/a/b", "/A", "/*", "/%41", "/é", "/\xff\x00", "/ ", "/{x}", "/_", "/?", "/[a]", `/\`,
		`/\*`, "/;",
		"/" + strings.Repeat("k", 900)}
	for ends := range slices.Chunk(ends, max(1, t.h.Many-2)) {
		prefix := t.newKey()
		var held []*grant
		for i, end := range ends {
			ttl := []time.Duration{t.long(), t.longest(), 2 * t.long()}[i%3]
			get := t.getterOf(t.g.Shared && i%4 == 3)
			held = append(held, get([]backend.Backend{t.b, t.a}[i%2], prefix+end, ttl))
		}
		waiter := t.wait(t.a, held[0].key, t.long())
		t.arrived(held[0].key, 1)
		parts := []string{prefix, other.key, ""}
		for _, end := range []string{"/", "/a", "/*", "/\xff", "/%", "/_", "/?", "/[a]", `/\`, `/\*`, "/;", "/^", "/$",
			"/."} {
			parts = append(parts, prefix+end)
		}
		for _, part := range parts {
			keys := t.list(lister, part)
			for _, g := range append(held, other) {
				if strings.HasPrefix(g.key, part) && !keys[g.key] {
					t.fatalf("List of the prefix %s lacks %s, which is held", show(part), show(g.key))
				}
			}
		}
		t.listsAreSeparate(lister, prefix, other.key)
		waiter.cancelAndFail(t)
		for _, g := range held {
			t.release(g)
		}
	}
	t.release(other)
	t.listsNoEnded(lister)
}

// listsNoEnded fails if List continues to return keys whose leases were released, broken or dropped, or have expired.
func (t *trial) listsNoEnded(lister backend.Lister) {
	prefix := t.newKey() + "/"
	ended := []*grant{t.acquire(t.a, prefix+"released", t.long()), t.acquire(t.b, prefix+"expired", t.short())}
	kept := t.acquire(t.a, prefix+"kept", t.long())
	w := t.wait(t.b, ended[0].key, t.long())
	t.arrived(ended[0].key, 1)
	w.cancelAndFail(t)
	t.queueAtMostOf(ended[0].key, 0)
	t.release(ended[0])
	if breaker, ok := t.b.(backend.Breaker); ok {
		broken := t.acquire(t.a, prefix+"broken", t.long())
		ended = append(ended, broken)
		t.mustBreak(breaker, broken)
	}
	if t.h.Evict != nil {
		evicted := t.acquire(t.a, prefix+"evicted", t.long())
		ended = append(ended, evicted)
		t.drops(evicted)
	}
	if t.g.Shared {
		ended = append(ended, t.endedReaders(prefix)...)
	}
	t.expire(ended[1])
	var keys map[string]bool
	if !t.poll(t.handOff(), func() bool {
		keys = t.list(lister, prefix)
		return !slices.ContainsFunc(ended, func(g *grant) bool { return keys[g.key] })
	}) {
		t.fatalf("List still returns keys whose leases have ended: %v", keys)
	}
	if !keys[kept.key] {
		t.fatalf("List lacks %s, which is held", show(kept.key))
	}
	t.release(kept)
}

// endedReaders returns readers whose leases have ended: of keys with prefix, each of which two readers shared.
func (t *trial) endedReaders(prefix string) (ended []*grant) {
	hold := func(end string) (readers []*grant) {
		readers = t.readers(prefix+end, 2, t.long())
		ended = append(ended, readers...)
		return readers
	}
	for _, g := range hold("released readers") {
		t.release(g)
	}
	if breaker, ok := t.b.(backend.Breaker); ok {
		for _, g := range hold("broken readers") {
			t.mustBreak(breaker, g)
		}
	}
	if t.h.Evict != nil {
		for _, g := range hold("evicted readers") {
			if t.inspect(g.key).Held() { // the Evict hook may drop one lease at a time
				t.drops(g)
			}
		}
	}
	return ended
}

// listsAreSeparate checks that another List leaves the keys alone that the first has returned.
func (t *trial) listsAreSeparate(lister backend.Lister, prefix, other string) {
	first, err := lister.List(t.ctx, prefix)
	if err != nil {
		return // elsewhere it is a failure
	}
	then := slices.Clone(first)
	t.list(lister, other)
	if !slices.Equal(first, then) {
		t.fatalf("the keys that List had returned changed with the next List")
	}
}

func breakEndsOneLease(t *trial) {
	breaker, ok := t.b.(backend.Breaker)
	if !ok {
		t.skipf("the store is no Breaker")
	}
	expired := t.acquire(t.a, t.newKey(), t.short())
	t.eachPair(func(p likePair) {
		g := t.acquireAs(t.a, t.newKey(), p.one)
		what := fmt.Sprintf("Break of owner %s of a key that %s holds", show(p.two), show(p.one))
		t.breaksNothing(breaker, g.key, p.two, what)
		t.belongsTo(g, what)
		t.mustBreak(breaker, g)
		t.free(t.b, g.key, "after Break of owner "+show(p.one))
	})
	for _, client := range []backend.Backend{t.a, t.b} {
		g := t.acquire(client, t.newKey(), t.long())
		other := t.acquire(client, t.newKey(), t.long())
		w := t.wait(t.a, g.key, t.long())
		t.arrived(g.key, 1)
		t.breaksNothing(breaker, g.key, backend.NewOwner(), "Break of an owner that nobody is")
		t.breaksNothing(breaker, g.key, w.owner, "Break of an owner that waits")
		t.breaksNothing(breaker, g.key, other.owner, "Break of an owner that holds another key")
		t.renew(g, t.long())
		t.heldBy(g)
		if err := t.breaksLease(breaker, g); err != nil {
			t.fatalf("Break of a live lease: %v", err)
		}
		next := w.granted(t, t.handOff(), "after Break of the holder's lease")
		if t.g.Fencing > backend.FencingNone && next.Token() <= g.Token() {
			t.breaks(7, "token %d was granted after %d", next.Token(), g.Token())
		}
		t.wantLost("Renew of a lease that was broken", func() error { return g.Renew(t.ctx, 2*t.long()) })
		t.describes(next, t.long())
		if !t.within(soon, g.Lost()) {
			t.breaks(6, "Lost is open after Renew was ErrLost")
		}
		t.breaksNothing(breaker, g.key, g.owner, "Break of a lease that was broken")
		t.isLost(g.Release(t.ctx), "Release of a lease that was broken")
		t.heldBy(next)
		t.heldBy(other)
		t.release(next)
		t.release(other)
	}
	t.expire(expired)
	t.breaksNothing(breaker, expired.key, expired.owner, "Break of a lease that has expired")
}

// breakSparesNext passes a key on while a Break of its holder is under way: before, between or after the requests of the
// Break. A delay of the link separates these requests.
func breakSparesNext(t *trial) {
	const delay, each, longest = 40 * time.Millisecond, 20 * time.Millisecond, 120 * time.Millisecond
	t.inChunks(int(longest/each), 2, func(i int) {
		c, link := t.linked()
		breaker, ok := c.(backend.Breaker)
		if !ok {
			t.skipf("the store is no Breaker")
		}
		t.usable(c)
		g := t.acquire(t.a, t.newKey(), t.long())
		w := t.wait(t.b, g.key, t.long())
		t.arrived(g.key, 1)
		link.Delay(ToStore, delay)
		broken := t.call(func() error { return breaker.Break(t.ctx, g.key, g.owner) })
		time.Sleep(time.Duration(i)*each + each/2)
		_ = g.Release(t.ctx) // ErrLost if the Break came first
		next := w.granted(t, t.handOff(), "after a Break and a release")
		_ = broken.ends(t, soon, "Break on a slow link")
		t.refused(t.a, next)
		t.describes(next, t.long())
		t.heldBy(next)
		t.release(next)
	})
}

// breaksLease ends g by Break, and requires a reply from the store. A client that retried its request may find the work
// done.
func (t *trial) breaksLease(breaker backend.Breaker, g *grant) error {
	ended := g.ended.Swap(true)
	begun := time.Now()
	err := breaker.Break(t.ctx, g.key, g.owner)
	t.lateOnTimeout(err, begun)
	if took := time.Since(begun); errors.Is(err, backend.ErrLost) && took > slow {
		t.tooLate("Break of a live lease: %v after %v", err, took)
	}
	if errors.Is(err, backend.ErrLost) || kit.Definite(err) {
		g.ended.Store(ended) // the Break has ended nothing: if a waiter is granted the key, that is a double grant
	}
	return err
}

// breaksNothing breaks a lease that does not exist. On a busy machine, a client that retried its request may not know
// that there was no lease.
func (t *trial) breaksNothing(breaker backend.Breaker, key, owner, what string) {
	begun := time.Now()
	t.wantLost(what, func() error {
		err := breaker.Break(t.ctx, key, owner)
		if took := time.Since(begun); err == nil && took > slow {
			t.tooLate("%s: no error after %v", what, took)
		}
		return err
	})
}
