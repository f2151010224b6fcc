package conformance

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// Checks that each reader has a lease of its own.
var sharedOwnershipChecks = []Check{
	{
		Name: "ReleaseEndsOneReader",
		Rule: "rules 1 and 5: Release ends the reader's own lease alone, also if it is called twice, at once, or too late",
		run:  releaseEndsOneReader,
	},
	{
		Name: "ReadersAreRenewedEach",
		Rule: "rules 1 and 5: Renew, alone or in a batch, extends or shortens the reader's own lease alone, also while " +
			"a writer waits",
		run: readersAreRenewedEach,
	},
	{
		Name: "MixedBatchRenewsEach",
		Rule: "BatchRenewer.RenewBatch renews shared and exclusive leases together, each for its own TTL, and reports " +
			"which it did not renew",
		run: mixedBatchRenewsEach,
	},
	{
		Name: "ReaderLosesAlone",
		Rule: "rules 1 and 6: Lost of a reader closes at its own deadline, whatever others do, and closes no other's",
		run:  readerLosesAlone,
	},
	{
		Name: "CloseEndsOwnReaders",
		Rule: "Backend.Close ends the readers of its client and their waits, and no other's",
		run:  closeEndsOwnReaders,
	},
}

func releaseEndsOneReader(t *trial) {
	const n = 4
	t.inChunks(n, n, func(i int) {
		key := t.newKey()
		readers := t.readers(key, n, t.long())
		g := readers[i]
		others := slices.Delete(slices.Clone(readers), i, i+1)
		if i%2 == 0 {
			t.release(g)
		}
		t.together(4, func(int) {
			begun := time.Now()
			err := g.Release(t.ctx)
			t.lateOnTimeout(err, begun)
			if err != nil {
				t.fatalf("one of several Releases of a reader: %v, want nil", err)
			}
		})
		t.isLost(g.Renew(t.ctx, t.long()), "Renew of a released shared lease")
		t.readersKeepOut(others, "after several Releases of another reader")
		// A later reader expires. Then this reader and the released one make requests that are too late.
		late := t.read(t.client(i), key, t.short())
		t.expire(late)
		for range 2 {
			t.isLost(late.Release(t.ctx), "Release of an expired shared lease")
		}
		if err := g.Release(t.ctx); err != nil {
			t.fatalf("Release after Release: %v, want nil", err)
		}
		t.isLost(late.Renew(t.ctx, t.long()), "Renew of an expired shared lease")
		t.readersKeepOut(others, "after late Releases of other readers")
		for len(others) > 0 {
			t.release(others[0])
			others = others[1:]
			t.readersKeepOut(others, "after the release of another reader")
		}
		t.mustBeFree(t.b, key, "after the release of all readers")
	})
}

// readersAreRenewedEach renews one of three readers in each way, while the others expire.
func readersAreRenewedEach(t *trial) {
	const n = 3
	ways := t.renewals()
	t.inChunks(2*n*len(ways), n+1, func(i int) {
		way, at, waited := ways[i/(2*n)], i%n, i/n%2 == 1
		g, key := (*grant)(nil), t.newKey()
		readers := t.readers(key, n, t.awaited())
		var w *waiting
		if waited {
			w = t.wait(t.client(i), key, t.long())
			t.arrived(key, 1)
		}
		others := slices.Delete(slices.Clone(readers), at, at+1)
		g = readers[at]
		deadlines := []time.Time{others[0].Deadline(), others[1].Deadline()}
		t.renewBy(g, t.long(), func() error { return way.renew(t.ctx, g, t.long()) })
		g.ttl = t.long()
		what := fmt.Sprintf("after %s of one of %d readers", way.what, n)
		for j, other := range others {
			if !t.sameDeadline(other, deadlines[j]) {
				t.fatalf("%s: the deadline of another has moved", what)
			}
			t.expire(other)
		}
		if w != nil {
			w.stillWaits(t, g, t.rule)
		}
		t.readersKeepOut([]*grant{g}, what+", when the others have run out")
		t.renewBy(g, t.short(), func() error { return way.renew(t.ctx, g, t.short()) })
		g.after, g.ttl = time.Now(), t.short()
		if w != nil {
			if late := t.lateness(g, w, g.after); late > time.Second {
				t.notInTime(t.rule, "%s to a shorter TTL: a writer has the key %v later than it was free", what, late.Round(tick))
			}
			return
		}
		t.outlast(t.lastRefusal(g.after, g.ttl).Add(time.Millisecond))
		t.mustBeFree(t.b, key, what+" to a shorter TTL, which has run out")
	})
}

func mixedBatchRenewsEach(t *trial) {
	batcher := t.batcher()
	n := min(64, t.h.Many)
	common := t.newKey()
	brief := t.g.Round(t.passing() + time.Duration(n/turns)*t.usual())
	grants := make([]*grant, n)
	t.inTurns(n, func(i int) {
		switch i % 4 {
		case 0:
			grants[i] = t.acquire(t.a, t.newKey(), brief)
		case 1:
			grants[i] = t.read(t.a, t.newKey(), brief)
		default:
			grants[i] = t.read(t.a, common, brief)
		}
	})
	released := func(i int) bool { return i%6 == 2 || i == 5 || i == 4 }
	batch, deadlines := make([]backend.Renewal, n), make([]time.Time, n)
	for i, g := range grants {
		if released(i) {
			t.release(g)
		}
		batch[i] = backend.Renewal{Lease: g.Lease, TTL: t.long() + time.Duration(i)*t.long()/time.Duration(n)}
		deadlines[i] = g.Deadline()
	}
	before := time.Now()
	errs := batcher.RenewBatch(t.ctx, batch)
	after := time.Now()
	if len(errs) != n {
		t.fatalf("a batch of %d leases has %d errors", n, len(errs))
	}
	t.answeredAll(errs, before)
	for i, g := range grants {
		switch {
		case released(i) && !errors.Is(errs[i], backend.ErrLost):
			t.fatalf("lease %d of a batch, which was released before: %v, want ErrLost", i, errs[i])
		case released(i):
		case errors.Is(errs[i], backend.ErrLost) && !after.Before(deadlines[i]):
			t.tooLate("a lease ended before it was renewed")
		case errs[i] != nil:
			t.fatalf("lease %d of a batch of %d, which is live: %v", i, n, errs[i])
		default:
			t.keepsDeadline(g, batch[i].TTL, before, after, "RenewBatch")
			g.ttl = batch[i].TTL
		}
	}
	t.outlast(t.lastRefusal(before, brief).Add(t.short() / 2))
	var readers []*grant // of the common key
	for i, g := range grants {
		switch {
		case released(i) && g.key != common:
			t.free(t.b, g.key, "after a batch with a released lease")
		case released(i):
		case g.key == common:
			readers = append(readers, g)
		default:
			t.refused(t.b, g)
			t.release(g)
			t.free(t.b, g.key, "after a batch, and release")
		}
	}
	t.readersKeepOut(readers, "when the TTL from before the batch has passed")
	for len(readers) > 0 {
		t.refused(t.b, readers[0])
		t.release(readers[0])
		readers = readers[1:]
	}
	t.mustBeFree(t.b, common, "after the release of all readers")
	t.batchesBrokenReader(batcher)
	t.batchSetsEachReader()
}

// readerLosesAlone holds leases of different TTLs side by side. Some expire, one is renewed, and one is released.
func readerLosesAlone(t *trial) {
	t.inChunks(2, 5, func(i int) {
		key := t.newKey()
		long := t.read(t.client(i), key, 2*t.long()) // for longer than any renewal
		first := t.read(t.a, key, t.short())
		second := t.read(t.a, key, t.g.Round(2*t.short()))
		renewed := t.read(t.a, key, t.short())
		released := t.read(t.a, key, t.short())
		all := []*grant{long, first, second, renewed, released}
		for j, x := range all {
			for _, y := range all[j+1:] {
				if x.Lost() == y.Lost() {
					t.fatalf("two readers have the same Lost channel")
				}
			}
		}
		var called *lossCallbacks
		if _, ok := long.Lease.(backend.LossNotifier); ok {
			called = t.countCallbacks(long)
		}
		t.renew(renewed, t.long())
		renewed.ttl = t.long()
		t.release(released)
		for _, g := range []*grant{first, second} {
			deadline := g.Deadline()
			if !t.within(time.Until(deadline)+soon, g.Lost()) {
				t.breaks(6, "Lost of a reader is not closed %v after its deadline", soon)
			}
			if early := time.Until(deadline); early > 0 && t.g.EarlyLoss == "" {
				t.breaks(6, "Lost of a reader is closed %v before its deadline", early)
			}
			for _, other := range []*grant{long, renewed, released} {
				if other.gone() {
					t.breaks(6, "Lost of a reader is closed as that of another one, whose TTL has run out")
				}
			}
		}
		t.outlast(t.lastRefusal(second.after, second.ttl))
		if called != nil {
			called.none("after the expiry of other readers")
		}
		t.readersKeepOut([]*grant{long, renewed}, "after the expiry of others")
		t.release(renewed)
		if released.gone() || renewed.gone() || long.gone() {
			t.breaks(6, "Lost of a reader is closed after a clean release")
		}
		t.release(long)
	})
}

func closeEndsOwnReaders(t *trial) {
	c := t.open()
	first := t.read(t.b, t.key, t.long())
	dead := []*grant{t.read(c, t.key, t.short()), t.read(c, t.key, t.short())}
	reader := t.read(t.a, t.key, t.long())
	busy := t.acquire(t.a, t.newKey(), t.long())
	waits := []*waiting{t.waitToRead(c, busy.key, t.long()), t.wait(c, busy.key, t.long())}
	t.arrived(busy.key, 2)
	behind := t.waitToRead(t.b, busy.key, t.long())
	t.arrived(busy.key, 3)
	left := t.read(c, t.newKey(), t.awaited())
	w := t.wait(t.b, left.key, t.long())
	t.arrived(left.key, 1)
	closing := time.Now()
	t.closes(c)
	for _, w := range waits {
		w.fails(t, "Acquire waiting at Close")
		w.endsByClose(t, closing, "Acquire waiting at Close")
	}
	for _, g := range dead {
		if !g.gone() {
			t.fatalf("Lost of a reader is not closed when Close returns")
		}
	}
	t.noReaderEnters(left.key, "behind a writer that waits for a reader whose client was closed")
	t.refused(t.b, reader)
	t.renew(reader, t.long())
	t.release(busy)
	t.release(behind.granted(t, t.handOff(), "after release, behind waiters of a closed client"))
	t.release(w.granted(t, t.g.Round(left.ttl)+t.handOff(), "after the TTL of a reader whose client was closed"))
	t.outlast(t.lastRefusal(dead[1].after, dead[1].ttl))
	t.readersKeepOut([]*grant{first, reader}, "when the TTLs of readers of a closed client have run out")
	t.release(reader)
	t.readersKeepOut([]*grant{first}, "after the release of another reader")
	t.release(first)
	t.mustBeFree(t.b, t.key, "after the TTLs of a closed client's readers, and the release of the others")
}
