package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// Checks of readers whose leases have ended in the store.
var sharedStaleChecks = []Check{
	{
		Name: "BreakEndsOneReader",
		Rule: "rules 1 and 5: Breaker.Break ends the reader that it names alone, whose requests are ErrLost then and " +
			"touch nobody",
		run: breakEndsOneReader,
	},
	{
		Name: "LateReaderRequestsTouchNothing",
		Rule: "rules 1 and 5: a renewal or release of a reader that reaches the store when its lease has ended " +
			"revives, ends and blocks nothing",
		Needs: []Need{needsLinked},
		run:   lateReaderRequestsTouchNothing,
	},
	{
		Name: "ReaderRenewalRacesExpiry",
		Rule: "rule 5: a renewal of a reader that meets the end of its lease succeeds, or is ErrLost and revives nothing",
		run:  readerRenewalRacesExpiry,
	},
	{
		Name: "StaleReaderSparesWriter",
		Rule: "rule 5: Renew and Release by a reader that has expired are ErrLost and do not touch the writer or " +
			"readers that came since; nor do those by a writer touch readers",
		run: staleReaderSparesWriter,
	},
}

// staleRequests returns the kinds of requests for a lease that has ended in the store.
func (t *trial) staleRequests() []renewal {
	return append(t.renewals(), renewal{"Release", func(ctx context.Context, g *grant,
		_ time.Duration) error {
		return g.Release(ctx)
	}})
}

func breakEndsOneReader(t *trial) {
	breaker, ok := t.b.(backend.Breaker)
	if !ok {
		t.skipf("the store is no Breaker")
	}
	requests := t.staleRequests()
	const n = 3
	t.inChunks(len(requests), n, func(i int) {
		t.breaksUnwaited(breaker, requests[i], t.readers(t.newKey(), n,
			t.long()))
	})
	t.inChunks(2*len(requests), n+3, func(i int) {
		request, key := requests[i/2], t.newKey()
		readers := t.readers(key, n, t.long())
		w := t.wait(t.client(i), key, t.long())
		t.arrived(key, 1)
		behind := t.waitToRead(t.client(i+1), key, t.long())
		t.arrived(key, 2)
		for _, owner := range []string{backend.NewOwner(), w.owner, behind.owner} {
			t.breaksNothing(breaker, key, owner, "Break of an owner that does not read")
		}
		g := readers[i%n]
		others := slices.Delete(slices.Clone(readers), i%n, i%n+1)
		t.breaksReader(breaker, g)
		t.breaksNothing(breaker, key, g.owner, "Break of a reader whose lease was broken")
		t.readersKeepOut(others, "after Break of another reader")
		t.wantLost(request.what+" of a reader whose lease was broken", func() error {
			return request.renew(t.ctx, g,
				2*t.long())
		})
		if !t.within(soon, g.Lost()) {
			t.breaks(6, "Lost is open after %s was ErrLost", request.what)
		}
		t.readersKeepOut(others, fmt.Sprintf("after %s of a reader whose lease was broken", request.what))
		w.stillWaits(t, others[0], t.rule)
		behind.stillWaits(t, others[0], t.rule)
		t.release(others[0])
		t.readersKeepOut(others[1:], "after Break of one reader and the release of another")
		stale := others[1]
		t.breaksReader(breaker, stale)
		next := w.granted(t, t.handOff(), "after Break of the last reader's lease")
		if t.g.Fencing > backend.FencingNone && next.Token() <= max(g.Token(), others[0].Token(), stale.Token()) {
			t.breaks(7, "token %d was granted to a writer after readers, of which the last was broken and had %d", next.Token(),
				stale.Token())
		}
		t.wantLost(request.what+" of the last reader, whose lease was broken", func() error {
			return request.renew(t.ctx,
				stale, t.short())
		})
		t.readRefused(next)
		t.describes(next, t.long())
		t.heldBy(next)
		behind.stillWaits(t, next, t.rule)
		t.renew(next, t.long())
		t.release(next)
		t.release(behind.granted(t, t.handOff(), "after the writer's release"))
		t.becomesFree(t.b, key, t.handOff(), "after the last release")
	})
}

// breaksUnwaited breaks the lease of one of readers, whose key nobody waits for.
func (t *trial) breaksUnwaited(breaker backend.Breaker, request renewal, readers []*grant) {
	elsewhere := t.read(t.a, t.newKey(), t.long())
	t.breaksNothing(breaker, readers[1].key, elsewhere.owner, "Break of a reader of another key")
	t.renew(elsewhere, t.long())
	t.release(elsewhere)
	t.breaksReader(breaker, readers[1])
	t.wantLost(request.what+" of a reader whose lease was broken", func() error {
		return request.renew(t.ctx, readers[1],
			2*t.long())
	})
	others := []*grant{readers[0], readers[2]}
	t.release(t.read(t.b, readers[1].key, t.long())) // a new reader may still enter
	t.readersKeepOut(others, fmt.Sprintf("after %s of a reader whose lease was broken", request.what))
	t.release(others[0])
	t.readersKeepOut(others[1:], "after Break of one reader and the release of another")
	t.release(others[1])
	t.mustBeFree(t.a, readers[1].key, "after Break of one reader and the release of the others")
	t.breaksReader(breaker, t.read(t.b, readers[1].key, t.long()))
	next := t.acquire(t.a, readers[1].key, t.long())
	t.readRefused(next)
	t.release(next)
}

func (t *trial) breaksReader(breaker backend.Breaker, g *grant) {
	if err := t.breaksLease(breaker, g); err != nil {
		t.fatalf("Break of a live shared lease: %v", err)
	}
}

// lateReaderRequestsTouchNothing holds back a reader's request until its lease has ended. By then the key is free,
// shared by others, or held exclusively.
func lateReaderRequestsTouchNothing(t *trial) {
	const cases = 4
	requests := t.staleRequests()
	t.inChunks(cases*len(requests), 3, func(i int) {
		request, next := requests[i/cases], i%cases
		c, link := t.linked()
		t.usable(c)
		g := t.read(c, t.newKey(), t.short())
		var others []*grant
		if next == 1 {
			others = append(others, t.read(t.b, g.key, t.long()))
		}
		link.Hold(ToStore)
		late := t.call(func() error { return request.renew(t.ctx, g, 2*t.long()) })
		t.outlast(t.lastRefusal(g.after, g.ttl))
		var w *waiting
		switch next {
		case 1: // others that came before the request
			w = t.wait(t.a, g.key, t.long())
			t.arrived(g.key, 1)
		case 2:
			others = append(others, t.read(t.b, g.key, t.long()), t.read(t.a, g.key, t.long()))
		case 3:
			others = append(others, t.acquire(t.b, g.key, t.long()))
		}
		link.Heal()
		what := fmt.Sprintf("a %s of a reader that came late to the store", request.what)
		if err := late.ends(t, 2*recovery, what); err == nil {
			t.fatalf("%s succeeded", what)
		}
		t.usable(c) // these requests queue behind the late one
		time.Sleep(lateBy)
		switch next {
		case 0:
			t.mustBeFree(t.b, g.key, "after "+what)
			return
		case 3:
			t.readRefused(others[0])
			t.describes(others[0], t.long())
			t.heldBy(others[0])
		default:
			t.readersKeepOut(others, "after "+what)
		}
		for _, other := range others {
			t.release(other)
		}
		if w != nil {
			t.release(w.granted(t, t.handOff(), "after "+what+", and the release of the last reader"))
		}
		t.mustBeFree(t.a, g.key, "after "+what+", and the release of all others")
	})
}

// losesReleaseReply releases a reader of c, which shares its key with others, and drops the reply. The client may
// release it again.
func (t *trial) losesReleaseReply(c backend.Backend, link Link, waited bool) {
	t.usable(c)
	key := t.newKey()
	others := []*grant{t.read(t.a, key, t.long())}
	g := t.read(c, key, t.long())
	others = append(others, t.read(t.b, key, t.long()))
	var w *waiting
	if waited {
		w = t.wait(t.a, key, t.long())
		t.arrived(key, 1)
	}
	var release *call
	t.dropReplies(link, func() { release = t.call(func() error { return g.Release(t.ctx) }) },
		func() bool { return t.inspect(key).Shared <= len(others) })
	_ = release.ends(t, recovery, "Release of a reader whose answer was lost") // its result may be unknown
	t.usable(c)
	time.Sleep(lateBy) // sleeps: the client may still repeat the request in the background
	t.readersKeepOut(others, "after a Release of another reader whose answer was lost")
	for _, other := range others {
		if w != nil {
			w.stillWaits(t, other, t.rule)
		}
		t.release(other)
	}
	if w != nil {
		t.release(w.granted(t, t.handOff(), "after the release of all readers"))
	}
	t.becomesFree(t.b, key, recovery, "after a Release of a reader whose answer was lost, and that of all others")
}

func staleReaderSparesWriter(t *trial) {
	t.inChunks(6, 4, func(i int) {
		key := t.newKey()
		stale := t.getterOf(i < 4)(t.a, key, t.short())
		t.expire(stale)
		client := t.client(i)
		var holders []*grant
		if i < 2 {
			holders = append(holders, t.acquire(client, key, t.long()))
		} else {
			holders = append(holders, t.read(client, key, t.long()), t.read(t.b, key, t.long()))
		}
		t.tokenAbove(holders[0], stale, "after an expiry")
		for range 2 {
			for _, request := range t.staleRequests() {
				t.isLost(request.renew(t.ctx, stale, 2*t.long()), request.what+" of an expired lease"+inMode(stale.shared))
			}
			if i < 2 {
				t.describes(holders[0], t.long())
				t.heldBy(holders[0])
				t.readRefused(holders[0])
				t.refusedFor(t.a, holders[0], t.short()/2)
			} else {
				t.readersKeepOut(holders, "after late requests of an expired lease")
			}
		}
		for _, g := range holders {
			t.release(g)
		}
		t.mustBeFree(t.b, key, "after late requests of an expired lease, and the release of all others")
	})
}

// readerRenewalRacesExpiry renews readers at the last moment, while a writer waits. Some of the readers share the key
// with another.
func readerRenewalRacesExpiry(t *trial) {
	const keys, rounds = 12, 2
	ways := t.renewals()
	t.inChunks(keys, 3, func(i int) {
		way := ways[i%len(ways)]
		moment := 10 * time.Millisecond
		if i%3 == 0 {
			moment = t.short() / 3 // for a machine whose timers are late
		}
		for range rounds {
			key := t.newKey()
			var beside *grant
			if i/2%2 == 0 {
				beside = t.read(t.b, key, t.long())
			}
			g := t.read(t.a, key, t.short())
			w := t.wait(t.b, key, t.long())
			old := g.Deadline()
			time.Sleep(time.Until(old) + 2*time.Millisecond - rand.N(moment))
			before := time.Now()
			err := way.renew(t.ctx, g, t.short())
			end := g.Deadline()
			t.lateOnTimeout(err, before)
			switch {
			case err == nil && end.Before(backend.Deadline(before, t.kept(t.short()))):
				t.fatalf("a renewal at the last moment was granted less than its TTL")
			case err == nil && w.ended() && w.grant != nil && w.grant.after.Before(before):
				t.fatalf("a renewal revived a reader %v after a writer was granted the key", before.Sub(w.grant.after))
			case err != nil && !errors.Is(err, backend.ErrLost):
				t.fatalf("%s at the last moment: %v, want nil or ErrLost", way.what, err)
			case err == nil:
				t.outlivesDeadline(g, old, way)
			}
			if beside != nil {
				w.stillWaits(t, beside, t.rule)
				t.outlast(t.lastRefusal(time.Now(), t.short()))
				t.readersKeepOut([]*grant{beside}, "after a renewal that met the end of another reader's lease")
				t.release(beside)
			}
			next := w.granted(t, 2*t.g.Round(t.short())+t.handOff(), "after the end of the readers")
			if err == nil && next.after.Before(end) {
				t.doubleGrant("a writer was granted the key %v before the renewed deadline of a reader", end.Sub(next.after))
			}
			t.release(next)
		}
	})
}
