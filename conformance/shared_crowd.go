package conformance

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
)

// Checks with many readers.
var sharedCrowdChecks = []Check{
	{
		Name: "ManyReaders",
		Rule: "rules 1, 3 and 9: hundreds of readers share a key; a writer behind them waits for the last, dead or not, and " +
			"all readers behind it enter together",
		run: manyReaders,
	},
	{
		Name: "StoreForgetsEndedReaders",
		Rule: "rule 10: a store keeps nothing of shared leases that were released or have expired, nor of waits that " +
			"were cancelled",
		Needs: []Need{needsFootprint},
		alone: true,
		run:   storeForgetsEndedReaders,
	},
}

func manyReaders(t *trial) {
	const fast = 5 * time.Millisecond // a slower store needs too long until so many readers wait
	n := min(300, 2*t.h.Many*3/5)
	behind := min(100, 2*t.h.Many*2/5-1)
	if t.usual() <= fast {
		behind = min(200, 2*t.h.Many*2/5-1)
	}
	all := n
	if bubbleName() != "" { // more readers take no longer
		all = max(n, min(1100, 2*t.large*3/5))
	}
	readers := make([]*grant, all)
	t.inTurns(all, func(i int) { readers[i] = t.read(t.client(i), t.key, t.long()) })
	if h := t.inspect(t.key); h.Shared != all {
		t.fatalf("Inspect returns %d shared leases, want %d", h.Shared, all)
	}
	t.inTurns(all-n, func(i int) { t.release(readers[n+i]) })
	readers = readers[:n]
	t.refusalNames(t.b, false, readers, 0)
	if lister, ok := t.b.(backend.Lister); ok && !t.list(lister, t.key)[t.key] {
		t.fatalf("List lacks a key that %d readers hold", n)
	}
	if n > 3 { // one of the last readers leaves
		t.breakOrRelease(t.b, readers[n-2])
		readers = slices.Delete(readers, n-2, n-1)
		n--
	}
	w, waits := t.parksReaders(behind)
	w.cancelAndFail(t)
	freed := t.readersEnter(waits, 2*t.handOff(), "behind a writer that was cancelled, with many readers before it")
	t.inTurns(len(freed), func(i int) { t.release(freed[i]) })
	t.queueAtMost(0) // if no reader was behind it, the writer may still be in the queue
	w, waits = t.parksReaders(behind)
	t.noReaderEnters(t.key, "behind a writer that waits for many readers")
	t.refused(t.b, readers[n-1])
	t.renewAll(readers)
	last := n / 3
	stay := readers[last]
	leaving := slices.Delete(slices.Clone(readers), last, last+1)
	t.inTurns(len(leaving), func(i int) { t.release(leaving[i]) })
	t.refused(t.b, stay)
	w.stillWaits(t, stay, t.rule)
	for _, w := range waits {
		w.stillWaits(t, stay, t.rule)
	}
	t.holdersAre([]*grant{stay}, "after the release of many readers")
	t.release(stay)
	g := w.granted(t, t.handOff(), "after the release of many readers")
	t.readRefused(g)
	t.release(g)
	for _, r := range t.readersEnter(waits, 2*t.handOff(), "after the release of the writer before many readers") {
		t.refused(t.b, r)
		t.release(r)
	}
	t.becomesFree(t.a, t.key, t.handOff(), "after many readers")
	t.deadCrowd(min(64, n/2))
}

// deadCrowd lets n readers expire while a writer waits for them.
func (t *trial) deadCrowd(n int) {
	key, readers := t.newKey(), make([]*grant, n)
	t.inTurns(n, func(i int) { readers[i] = t.read(t.client(i), key, t.awaited()) })
	last := slices.MaxFunc(readers, func(x, y *grant) int { return x.Deadline().Compare(y.Deadline()) })
	w := t.wait(t.b, key, t.long())
	const most = time.Second
	if late := t.lateness(last, w, last.after); late > most {
		t.notInTime(t.rule, "a writer has the key of %d dead readers %v later than it was free", n, late.Round(tick))
	}
	t.becomesFree(t.a, key, t.handOff(), "after many dead readers and a writer")
}

// parksReaders starts a waiting writer and n readers that wait behind it.
func (t *trial) parksReaders(n int) (w *waiting, behind []*waiting) {
	w = t.wait(t.a, t.key, t.long())
	t.arrived(t.key, 1)
	for i := range n {
		behind = append(behind, t.waitToRead(t.client(i), t.key, t.long()))
	}
	t.arrived(t.key, 1+n)
	return w, behind
}

// renewAll renews the grants of client a in one batch, if the store supports batches. Otherwise it renews all grants,
// one by one.
func (t *trial) renewAll(grants []*grant) {
	batcher, ok := t.a.(backend.BatchRenewer)
	if !ok {
		t.inTurns(len(grants), func(i int) { t.renew(grants[i], t.long()) })
		return
	}
	var own []*grant
	for _, g := range grants {
		if g.client == t.a {
			own = append(own, g)
		} else {
			t.renew(g, t.long())
		}
	}
	begun := time.Now()
	errs := batcher.RenewBatch(t.ctx, toBatch(t.long(), own...))
	t.answeredAll(errs, begun)
	for i, err := range errs {
		if err != nil {
			t.fatalf("reader %d in a batch of %d of one key: %v", i, len(own), err)
		}
	}
}

// storeForgetsEndedReaders ends many shared leases of a few keys in every way.
func storeForgetsEndedReaders(t *trial) {
	const (
		leases = 8 // per worker, ended together
		each   = 40
		atMost = 3 * time.Second // for each way
	)
	if t.h.Many < leases+1 {
		t.skipf("too few leases (Harness.Many) to measure")
	}
	workers := min(6, t.h.Many/(leases+1))
	keys := make([]string, workers)
	for i := range keys {
		keys[i] = t.newKey()
	}
	ways := map[string]func(key string){
		"readers were released": func(key string) {
			for range leases {
				t.release(t.soonShared(t.a, key, "after ended leases"))
			}
		},
		"readers expired": func(key string) {
			var dead []*grant
			for range leases {
				if g, err := t.share(t.b, key, t.short()); err == nil { // otherwise the cleanup of a wait is under way
					dead = append(dead, g)
				}
			}
			for _, g := range dead {
				t.within(t.g.Round(t.short())+soon, g.Lost())
			}
		},
		"waits of readers and writers were cancelled": func(key string) {
			g := t.soonShared(t.a, key, "after cancelled waits")
			waits := []*waiting{t.wait(t.b, key, t.long())}
			t.arrived(key, 1)
			for range leases - 1 {
				waits = append(waits, t.waitToRead(t.a, key, t.long()))
			}
			for _, w := range waits {
				w.cancel()
			}
			for _, w := range waits {
				t.eitherOr(w)
			}
			t.release(g)
		},
	}
	for what, end := range ways {
		var ended atomic.Int64
		before := t.footprint()
		until := time.Now().Add(atMost)
		t.together(workers, func(i int) {
			for range t.rounds(each, until) {
				end(keys[i])
				ended.Add(leases)
			}
		})
		most, now := before+max(16, ended.Load()/16), before
		if !t.poll(recovery+t.g.Round(t.short())+t.g.MaxLate, func() bool { now = t.footprint(); return now <= most }) {
			t.breaks(10, "the store keeps %d records more after %s", now-before, what)
		}
	}
}
