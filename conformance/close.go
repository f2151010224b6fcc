package conformance

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

var closeChecks = []Check{
	{
		Name: "CloseEndsWaiting",
		Rule: "Backend.Close ends waiting Acquires with ErrClosed, on every key, and they delay other clients' waiters, " +
			"before them and behind, for a bounded time",
		run: closeEndsWaiting,
	},
	{
		Name: "CloseEndsLeases",
		Rule: "Backend.Close loses the client's leases to their holders at once; their keys are free, or granted to who " +
			"waits, when the TTL runs out; until then others can list and break the leases",
		run: closeEndsLeases,
	},
	{
		Name: "CloseRefusesLaterCalls",
		Rule: "Backend.Close: later calls of Acquire, Inspect, Renew and Release are ErrClosed; a second Close is nil",
		run:  closeRefusesLaterCalls,
	},
	{
		Name: "CloseSparesOtherClients",
		Rule: "Backend.Close ends one client; leases and waiters of another live on",
		run:  closeSparesOtherClients,
	},
	{
		Name: "CloseFinishesReleases",
		Rule: "Backend.Close lets releases and clean-ups finish for a bounded time: a lease under release, an attempt " +
			"that got no answer and a cancelled wait leave nothing behind that lasts for their TTL",
		Needs: []Need{needsLinked},
		run:   closeFinishesReleases,
	},
	{
		Name: "CloseRacesAcquire",
		Rule: "Backend.Close that meets Acquire gives either a lease or ErrClosed, and keys that are free by their TTL",
		run:  closeRacesAcquire,
	},
}

// isClosed fails unless err is ErrClosed.
func (t *trial) isClosed(err error, what string) {
	if !errors.Is(err, backend.ErrClosed) {
		t.fatalf("%s: %v, want ErrClosed", what, err)
	}
}

// endsByClose fails unless the error of w is ErrClosed. It proves nothing if w ended before closing, or if the machine
// or the store stood still: a time limit of the store may then have ended w.
func (w *waiting) endsByClose(t *trial, closing time.Time, what string) {
	if w.begun.Add(w.took).Before(closing) || t.stoodStill() != "" {
		w.failed(t)
	}
	t.isClosed(w.err, what)
}

// closes closes c, which must succeed within a bounded time.
func (t *trial) closes(c backend.Backend) {
	done := make(chan struct{})
	t.spawn(func() {
		defer close(done)
		if err := c.Close(); err != nil {
			t.errorf("Close: %v", err)
		}
	})
	if !t.within(2*soon, done) {
		t.breaksText(closeRule, "Close has not returned within %v", 2*soon)
	}
}

func closeEndsWaiting(t *trial) {
	g, other := t.acquire(t.b, t.key, t.long()), t.acquire(t.a, t.newKey(), t.long())
	c := t.open()
	first := t.wait(t.a, t.key, t.long())
	t.arrived(t.key, 1)
	ended := []*waiting{t.wait(c, t.key, t.long()), t.wait(c, t.key, t.long())}
	if t.g.Shared {
		ended = append(ended, t.waitToRead(c, t.key, t.long()))
	}
	cancelled := []*waiting{t.wait(c, t.key, t.long())}
	if t.g.Shared {
		cancelled = append(cancelled, t.waitToRead(c, t.key, t.long()))
	}
	n := 1 + len(ended) + len(cancelled)
	t.arrived(t.key, n)
	last := t.wait(t.a, t.key, t.long())
	t.arrived(t.key, n+1)
	ended = append(ended, t.wait(c, other.key, t.long()))
	t.arrived(other.key, 1)
	behind := t.wait(t.b, other.key, t.long())
	t.arrived(other.key, 2)
	for _, w := range cancelled { // Close lets their cleanup finish
		w.cancelAndFail(t)
	}
	closing := time.Now()
	t.closes(c)
	for _, w := range ended {
		w.fails(t, "Acquire waiting at Close")
		w.endsByClose(t, closing, "Acquire waiting at Close")
	}
	t.heldBy(g)
	t.release(g)
	for _, waits := range [][]*waiting{{first, last}, {behind}} {
		for len(waits) > 0 {
			var next *grant
			next, waits = t.next(waits, t.handOff(), "after release, before or behind waiters of a closed client")
			t.release(next)
		}
		if !other.ended.Load() {
			t.release(other)
		}
	}
	t.becomesFree(t.b, t.key, t.handOff(), "after the last release")
	t.becomesFree(t.b, other.key, t.handOff(), "after the last release")
}

func closeEndsLeases(t *trial) {
	t.closesAlike()
	c := t.open()
	g := t.acquire(c, t.key, t.short())
	long := t.acquire(c, t.newKey(), t.long())
	released := t.acquire(c, t.newKey(), t.long())
	t.release(released)
	waited := t.acquire(c, t.newKey(), t.awaited())
	w, end := t.wait(t.b, waited.key, t.long()), waited.Deadline()
	t.arrived(waited.key, 1)
	kept := []*grant{long}
	if t.g.Shared {
		kept = append(kept, t.read(c, t.newKey(), t.long()))
	}
	t.closes(c)
	for _, l := range append(kept, g) {
		if !l.gone() {
			t.fatalf("Lost is not closed when Close returns")
		}
	}
	if released.gone() {
		t.fatalf("Close closed Lost of a lease that was released cleanly")
	}
	if !t.mayEndLeases() {
		for _, l := range kept {
			t.keptBeyondClose(l)
		}
	}
	t.outlast(t.lastRefusal(g.after, g.ttl))
	freed := t.free(t.b, t.key, "after the TTL of a lease whose client was closed")
	t.tokenAbove(freed, g, "after the TTL of a lease whose client was closed")
	next := w.granted(t, t.g.Round(waited.ttl)+t.handOff(), "after the TTL of a lease whose client was closed")
	if early := end.Sub(next.after); early > 0 && !t.mayEndLeases() {
		t.fatalf("Close has passed a key on %v before the TTL ran out, while its holder may still be at work", early)
	}
	t.tokenAbove(next, waited, "after the TTL of a lease whose client was closed")
	t.release(next)
}

// closesAlike closes clients whose leases were granted or extended in different ways. Each lease must be lost to its
// holder at once, and kept by the store.
func (t *trial) closesAlike() {
	ways := []func(c backend.Backend) *grant{t.grantedAfterWait}
	for _, way := range t.renewals() {
		ways = append(ways, func(c backend.Backend) *grant {
			g := t.acquire(c, t.newKey(), t.long())
			t.renewBy(g, t.long(), func() error { return way.renew(t.ctx, g, t.long()) })
			return g
		})
	}
	if _, ok := t.a.(backend.Resumer); ok {
		ways = append(ways, func(c backend.Backend) *grant {
			return t.resume(c, t.acquire(t.a, t.newKey(), t.long()), t.long())
		})
	}
	for ways := range slices.Chunk(ways, max(1, t.h.Many/2)) {
		c := t.open()
		var held []*grant
		for _, way := range ways {
			held = append(held, way(c))
		}
		t.closes(c)
		for _, g := range held {
			if !g.gone() {
				t.fatalf("Lost of a lease that was waited for, renewed or resumed is not closed when Close returns")
			}
			if !t.mayEndLeases() {
				t.keptBeyondClose(g)
			}
		}
	}
}

// tokenAbove fails unless the token of next is greater than that of last, if the store has tokens.
func (t *trial) tokenAbove(next, last *grant, when string) {
	if t.g.Fencing > backend.FencingNone && next.Token() <= last.Token() {
		t.breaks(7, "%s: token %d was granted after %d", when, next.Token(), last.Token())
	}
}

// keptBeyondClose fails unless the store still holds the key of g, whose client was closed long before its TTL, and
// others can list and break the lease.
func (t *trial) keptBeyondClose(g *grant) {
	begun := time.Now()
	r := backend.Request{Key: g.key, Owner: backend.NewOwner(), TTL: t.long()}
	_, err := t.request(t.ctx, t.b, r)
	t.lateOnTimeout(err, begun)
	end := backend.Deadline(g.before, t.kept(g.ttl))
	switch {
	case errors.Is(err, backend.ErrHeld):
	case err != nil:
		t.breaksText(refuseRule, "Acquire of a key whose holder's client was closed: %v, want ErrHeld", err)
	case !time.Now().Before(end):
		t.tooLate("a lease ended before its key was requested")
	default:
		t.fatalf("Close has freed a key %v before the TTL ran out, while its holder may still be at work", time.Until(end))
	}
	if lister, ok := t.b.(backend.Lister); ok && !t.list(lister, g.key)[g.key] && time.Now().Before(end) {
		t.breaksText(inspectRule, "List does not return a key that is held, whose holder's client was closed")
	}
	if breaker, ok := t.b.(backend.Breaker); ok {
		err := t.breaksLease(breaker, g)
		switch {
		case errors.Is(err, backend.ErrLost) && !time.Now().Before(end):
			t.tooLate("a lease ended before it was broken")
		case err != nil:
			t.fatalf("Break of a lease whose client was closed: %v", err)
		}
		t.becomesFree(t.b, g.key, t.handOff(), "after Break of a lease whose client was closed")
	}
}

func closeRefusesLaterCalls(t *trial) {
	c := t.open()
	g := t.acquire(c, t.key, t.long())
	t.together(4, func(int) { t.closes(c) })
	for _, wait := range []bool{false, true} {
		_, err := t.requestKey(t.ctx, c, t.newKey(), t.long(), wait)
		t.isClosed(err, "Acquire after Close")
		_, err = t.requestKey(t.ctx, c, t.key, t.long(), wait)
		t.isClosed(err, "Acquire of a held key after Close")
		if t.g.Shared {
			r := backend.Request{Key: t.newKey(), Owner: backend.NewOwner(), TTL: t.long(), Wait: wait, Shared: true}
			_, err = t.request(t.ctx, c, r)
			t.isClosed(err, "shared Acquire after Close")
		}
	}
	_, err := c.Inspect(t.ctx, t.key)
	t.isClosed(err, "Inspect after Close")
	t.isClosed(g.Renew(t.ctx, t.long()), "Renew after Close")
	t.isClosed(g.Release(t.ctx), "Release after Close")
	if batcher, ok := c.(backend.BatchRenewer); ok {
		errs := batcher.RenewBatch(t.ctx, toBatch(t.long(), g))
		if len(errs) != 1 {
			t.fatalf("a batch of one lease of a closed client has %d errors", len(errs))
		}
		t.isClosed(errs[0], "RenewBatch after Close")
	}
	t.closes(c)
	t.servedBesideClosed()
}

// servedBesideClosed checks the trial's own clients after another one was closed several times.
func (t *trial) servedBesideClosed() {
	key := t.newKey()
	t.free(t.a, key, "after another client was closed twice")
	t.free(t.b, key, "after another client was closed twice")
	g := t.acquire(t.a, key, t.long())
	w := t.wait(t.b, key, t.long())
	t.arrived(key, 1)
	t.renew(g, t.long())
	t.release(g)
	t.release(w.granted(t, t.handOff(), "after release, when another client was closed twice"))
}

// closeFinishesReleases closes clients on a slow link while a release or a cleanup is under way. A Close that waited for
// long may rightly have given up.
func closeFinishesReleases(t *trial) {
	const (
		delay = 50 * time.Millisecond
		long  = 500 * time.Millisecond
	)
	// The ways begin a release or a cleanup of a key. then is called after Close.
	ways := []func(c backend.Backend, link Link) (key string, then func()){
		func(c backend.Backend, link Link) (string, func()) {
			g := t.acquire(c, t.newKey(), t.long())
			link.Delay(ToStore, delay)
			release := t.call(func() error { return g.Release(t.ctx) })
			time.Sleep(delay / 2)
			return g.key, func() { _ = release.ends(t, soon, "Release that was under way at Close") }
		},
		func(c backend.Backend, link Link) (string, func()) {
			r := backend.Request{Key: t.newKey(), Owner: backend.NewOwner(), TTL: t.long()}
			link.Hold(FromStore)
			t.unanswered(c, r)
			link.Heal()
			return r.Key, func() {}
		},
		func(c backend.Backend, link Link) (string, func()) {
			g := t.acquire(t.a, t.newKey(), t.long())
			w := t.wait(c, g.key, t.long())
			t.confirmQueued(g.key, 1)
			link.Delay(ToStore, delay)
			w.cancelAndFail(t)
			return g.key, func() { t.release(g) }
		},
	}
	t.inChunks(len(ways), 2, func(i int) {
		c, link := t.linked()
		t.usable(c)
		key, then := ways[i](c, link)
		closing := time.Now()
		t.closes(c)
		waited := time.Since(closing)
		then()
		if waited < long {
			t.becomesFree(t.b, key, t.handOff(), "after Close, with a release or a clean-up under way")
		}
	})
}

func closeSparesOtherClients(t *trial) {
	t.closeSparesTwins()
	g := t.acquire(t.a, t.key, t.long())
	w := t.wait(t.b, t.key, t.long())
	t.arrived(t.key, 1)
	c := t.open()
	t.refused(c, g)
	t.acquire(c, t.newKey(), t.long())
	t.closes(c)
	t.heldBy(g)
	t.renew(g, t.long())
	w.stillWaits(t, g, t.rule)
	t.release(g)
	t.release(w.granted(t, t.handOff(), "after release"))
}

// closeSparesTwins closes one of several clients that were opened at the same moment.
func (t *trial) closeSparesTwins() {
	clients, held := make([]backend.Backend, firstClients), make([]*grant, firstClients)
	t.atOnce(len(clients), func(i int) { clients[i] = t.dial() })
	for i, c := range clients {
		_, _ = c.Inspect(t.ctx, t.newKey()) // a client may connect at its first request
		held[i] = t.acquire(c, t.newKey(), t.long())
	}
	busy := t.acquire(t.a, t.newKey(), t.long())
	w := t.wait(clients[1], busy.key, t.long())
	t.arrived(busy.key, 1)
	t.closes(clients[0])
	for _, g := range held[1:] {
		t.heldBy(g)
		t.renew(g, t.long())
		t.release(g)
	}
	w.stillWaits(t, busy, t.rule)
	t.release(busy)
	t.release(w.granted(t, t.handOff(), "after release"))
}

func closeRacesAcquire(t *trial) {
	const workers, rounds = 4, 4
	t.together(workers, func(i int) {
		key := t.newKey()
		for range rounds {
			c := t.dial()
			var waits []*waiting
			for range 6 {
				waits = append(waits, t.wait(c, key, t.short()))
			}
			time.Sleep(rand.N(2 * time.Millisecond))
			closing := time.Now()
			t.closes(c)
			last := t.lastRefusal(time.Now(), t.short())
			for _, w := range waits {
				if !t.within(soon, w.done) {
					t.fatalf("an Acquire that met Close has not returned within %v", soon)
				}
				switch {
				case w.err != nil:
					w.endsByClose(t, closing, "Acquire that met Close")
				case !w.grant.gone():
					t.fatalf("Lost is not closed for a lease whose client was closed")
				}
			}
			ctx, cancel := context.WithDeadline(t.ctx, last.Add(t.handOff()))
			begun := time.Now()
			g, err := t.requestKey(ctx, t.b, key, t.long(), true)
			if ctx.Err() == nil {
				t.lateOnTimeout(err, begun)
			}
			cancel()
			if err != nil {
				t.fatalf("the key is not free by the TTL of a lease whose client was closed: %v", err)
			}
			t.release(g)
		}
	})
}
