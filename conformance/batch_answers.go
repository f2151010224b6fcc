package conformance

import (
	"errors"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
)

// drops makes the store drop g without a request by its holder. It reports false if there is no way to do so.
func (t *trial) drops(g *grant) bool {
	breaker, ok := t.b.(backend.Breaker)
	switch {
	case t.h.Evict != nil:
		if err := t.h.Evict(t.ctx, g.key); err != nil {
			t.fatalf("Evict: %v", err)
		}
	case ok:
		t.mustBreak(breaker, g)
	default:
		return false
	}
	return true
}

// batchesOfOneKey renews, in one batch, a lease that the store has dropped, and the next lease of its key and client,
// in the same mode or in the other. The store must have renewed the next lease, wherever it is in the batch. Another
// batch must leave the results alone.
func (t *trial) batchesOfOneKey(batcher backend.BatchRenewer) {
	modes := t.modes()
	n := len(modes)
	t.inChunks(2*n*n, 3, func(i int) {
		first, getStale, getNext := i%2, t.getterOf(modes[i/2%n]), t.getterOf(modes[i/2/n])
		stale := getStale(t.a, t.newKey(), t.long())
		if !t.drops(stale) {
			return
		}
		next, other := getNext(t.a, stale.key, t.long()), t.acquire(t.a, t.newKey(), t.long())
		batch := []*grant{stale, next}
		if first == 1 {
			slices.Reverse(batch)
		}
		begun := time.Now()
		errs := batcher.RenewBatch(t.ctx, toBatch(2*t.long(), batch...))
		if len(errs) != len(batch) {
			t.fatalf("a batch of %d leases has %d errors", len(batch), len(errs))
		}
		t.answeredAll(errs, begun)
		then := slices.Clone(errs)
		t.answeredAll(batcher.RenewBatch(t.ctx, toBatch(t.long(), other, stale)), begun)
		for i, g := range batch {
			switch {
			case (errs[i] == nil) != (then[i] == nil):
				t.fatalf("result %d of a batch was %v, and after the next batch it is %v", i, then[i], errs[i])
			case g == stale && !errors.Is(errs[i], backend.ErrLost):
				t.fatalf("a lease that the store had dropped, in a batch with the next lease of its key: %v, want ErrLost", errs[i])
			case g == next && errs[i] != nil:
				t.fatalf("a live lease, in a batch with the lease before it of its key, which the store had dropped: %v", errs[i])
			}
		}
		t.describes(next, 2*t.long())
		t.heldBy(next)
		t.release(next)
		t.release(other)
	})
}

// twiceInBatch renews a lease twice in one batch, for different TTLs. Each has a result, and the lease must end for its
// holder before the store grants the key again, whichever TTL counts.
func (t *trial) twiceInBatch(batcher backend.BatchRenewer) {
	t.inChunks(2, 2, func(i int) {
		g := t.acquire(t.a, t.newKey(), t.long())
		batch := []backend.Renewal{{Lease: g.Lease, TTL: t.long()}, {Lease: g.Lease, TTL: t.short()}}
		if i == 1 {
			slices.Reverse(batch)
		}
		if errs := batcher.RenewBatch(t.ctx, batch); len(errs) != len(batch) {
			t.fatalf("a batch that contains a lease twice has %d errors, want one for each renewal", len(errs))
		}
		t.shortenedLate(g, t.short(), "that a batch contained twice")
	})
}

// batchesAtOnce renews several batches of one client at the same moment. In each, the store has dropped another lease,
// and must renew the leases before and behind it.
func (t *trial) batchesAtOnce(batcher backend.BatchRenewer) {
	const batches, each = 6, 6
	n, ttl := min(batches, t.h.Many/each), 2*t.long()
	grants := make([][]*grant, n)
	for i := range grants {
		for range each {
			grants[i] = append(grants[i], t.acquire(t.a, t.newKey(), t.long()))
		}
		if !t.drops(grants[i][i]) {
			return
		}
	}
	t.atOnce(n, func(i int) {
		begun := time.Now()
		errs := batcher.RenewBatch(t.ctx, toBatch(ttl, grants[i]...))
		if len(errs) != each {
			t.fatalf("a batch of %d leases, beside others, has %d errors", each, len(errs))
		}
		t.answeredAll(errs, begun)
		for j, err := range errs {
			switch {
			case j == i && !errors.Is(err, backend.ErrLost):
				t.fatalf("a lease that the store had dropped, number %d of a batch beside others: %v, want ErrLost", j, err)
			case j != i && err != nil:
				t.fatalf("a live lease, number %d of a batch beside others: %v", j, err)
			}
		}
	})
	for i := range grants {
		for j, g := range grants[i] {
			if i != j {
				t.remains(g, ttl, "RenewBatch")
				t.release(g)
			}
		}
	}
}
