package conformance

import (
	"errors"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// Parts of MixedBatchRenewsEach: batches of several readers of one key.

// batchesBrokenReader renews readers of one key in one batch. One of them was broken, or all but one.
func (t *trial) batchesBrokenReader(batcher backend.BatchRenewer) {
	breaker, ok := t.b.(backend.Breaker)
	if !ok {
		return
	}
	const n = 3
	t.inChunks(2*n, n, func(i int) {
		isBroken := func(j int) bool { return (j == i%n) == (i < n) }
		key := t.newKey()
		var readers, live []*grant
		for range n {
			readers = append(readers, t.read(t.a, key, t.long()))
		}
		for j, g := range readers {
			if isBroken(j) {
				t.breaksReader(breaker, g)
			} else {
				live = append(live, g)
			}
		}
		begun := time.Now()
		errs := batcher.RenewBatch(t.ctx, toBatch(2*t.long(), readers...))
		if len(errs) != n {
			t.fatalf("a batch of %d readers of one key has %d errors", n, len(errs))
		}
		t.answeredAll(errs, begun)
		for j, err := range errs {
			switch {
			case isBroken(j) && !errors.Is(err, backend.ErrLost):
				t.fatalf("reader %d in a batch of %d of one key, whose lease was broken: %v, want ErrLost", j, n, err)
			case !isBroken(j) && err != nil:
				t.fatalf("reader %d in a batch of %d of one key, which is live: %v", j, n, err)
			}
		}
		for _, g := range live {
			g.ttl = 2 * t.long()
		}
		t.readersKeepOut(live, "after a batch with readers whose leases were broken")
		for _, g := range live {
			t.release(g)
		}
	})
}

// batchSetsEachReader renews many readers of one key in one batch: every third one for long, the others for a TTL that
// soon runs out. Each must get its own TTL, wherever in the batch it is.
func (t *trial) batchSetsEachReader() {
	const most = 150
	key, readers, begun := t.newKey(), make([]*grant, min(most, t.h.Many)), time.Now()
	end := begun.Add(min(batchBudget, t.long()/4))
	t.inTurns(len(readers), func(i int) {
		if i < turns || time.Now().Before(end) {
			readers[i] = t.read(t.a, key, t.long())
		}
	})
	readers = slices.DeleteFunc(readers, func(g *grant) bool { return g == nil })
	// a batch may take as long as the requests
	brief := t.g.Round(max(t.passing(), min(t.passing()+2*time.Since(begun), t.long()/2)))
	var stay []*grant
	ttls := make([]time.Duration, len(readers))
	for i, g := range readers {
		if ttls[i] = brief; i%3 == 1 {
			ttls[i] = t.long()
			stay = append(stay, g)
		}
	}
	t.renewTogether(readers, ttls)
	t.outlast(t.lastRefusal(time.Now(), brief))
	when := "after a batch for different TTLs, of which the short ones have run out"
	if len(stay) > 0 {
		t.holdersAre(stay, when)
	}
	t.inTurns(len(stay), func(i int) { t.renew(stay[i], t.long()) })
	t.inTurns(len(stay), func(i int) { t.release(stay[i]) })
	t.mustBeFree(t.b, key, when+", and the release of the others")
}
