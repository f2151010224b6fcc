package conformance

import (
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

var largeBatchChecks = []Check{
	{
		Name: "LargeBatchRenewsEach",
		Rule: "BatchRenewer.RenewBatch renews each of hundreds of leases in the store, for its own TTL, and tells which it did not",
		run:  largeBatchRenewsEach,
	},
}

func largeBatchRenewsEach(t *trial) {
	batcher := t.batcher()
	n := t.h.Many
	brief := t.passing() // a lease that the batch leaves out is over after that
	released := func(i int) bool { return i%37 == 5 || i == n-2 && n > 4 }
	grants, batch := make([]*grant, n), make([]backend.Renewal, n)
	t.inTurns(n, func(i int) {
		grants[i] = t.acquire(t.a, t.newKey(), brief)
		batch[i] = backend.Renewal{Lease: grants[i].Lease, TTL: t.long() + time.Duration(i)*t.long()/time.Duration(n)}
		if released(i) {
			t.release(grants[i])
		}
	})
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
			t.fatalf("lease %d of a batch of %d, which was released before: %v, want ErrLost", i, n, errs[i])
		case released(i):
		case errors.Is(errs[i], backend.ErrLost) && !after.Before(backend.Deadline(g.before, t.kept(brief))):
			t.tooLate("a lease ended before it was renewed")
		case errs[i] != nil:
			t.fatalf("lease %d of a batch of %d: %v", i, n, errs[i])
		default:
			t.keeps(g, batch[i].TTL, before, after, "RenewBatch")
		}
	}
	t.outlast(t.lastRefusal(grants[n-1].after, brief).Add(t.short() / 2))
	t.inTurns(n, func(i int) {
		if released(i) {
			t.free(t.b, grants[i].key, "after a batch with a released lease")
			return
		}
		t.remains(grants[i], batch[i].TTL, "RenewBatch")
		t.refused(t.b, grants[i])
		t.release(grants[i])
	})
}
