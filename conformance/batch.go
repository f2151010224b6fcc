package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/anylock/lock/backend"
)

var batchChecks = []Check{
	{
		Name: "LargeBatchRenewsEach",
		Rule: "BatchRenewer.RenewBatch renews each of a thousand leases in the store, for its own TTL, and " +
			"reports which it did not renew",
		run: largeBatchRenewsEach,
	},
	{
		Name: "RenewBatchReportsEach",
		Rule: "BatchRenewer.RenewBatch returns one error for each lease, in order, with the meaning of Lease.Renew's",
		run:  renewBatchReportsEach,
	},
}

// answeredAll calls answered for each error of a batch.
func (t *trial) answeredAll(errs []error, begun time.Time) {
	for _, err := range errs {
		t.lateOnTimeout(err, begun)
	}
}

// batcher returns client a as a BatchRenewer, or skips the check.
func (t *trial) batcher() backend.BatchRenewer {
	r, ok := t.a.(backend.BatchRenewer)
	if !ok {
		t.skipf("the store is no BatchRenewer")
	}
	return r
}

func largeBatchRenewsEach(t *trial) {
	batcher := t.batcher()
	n := t.large
	round := time.Duration(n/turns+1) * t.usual() // the time of one request for each lease
	if 6*round > t.timeout {
		t.provesNothing("%d requests take %v, and there are several rounds of them", n, round)
	}
	// a lease that the batch does not renew expires after brief
	brief := t.g.Round(max(t.passing(), min(t.passing()+2*round, t.long()/2)))
	released := func(i int) bool { return i%37 == 5 || i == n-2 && n > 4 }
	// All keys have the same prefix, and some have the same ending.
	keys := make([]string, n)
	for i := range keys {
		keys[i] = t.key + strings.Repeat("/long", 40*(i%2)) + fmt.Sprintf("/%05d", i) + strings.Repeat("/end", 20*(i%3))
	}
	grants, batch := make([]*grant, n), make([]backend.Renewal, n)
	t.inTurns(n, func(i int) {
		grants[i] = t.acquire(t.a, keys[i], brief)
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
			t.keepsDeadline(g, batch[i].TTL, before, after, "RenewBatch")
		}
	}
	t.outlast(t.lastRefusal(grants[n-1].after, brief).Add(t.short() / 2))
	t.batchShortens(grants, batch, released)
	t.inTurns(n, func(i int) {
		if released(i) {
			t.free(t.b, grants[i].key, "after a batch with a released lease")
			return
		}
		t.remains(grants[i], batch[i].TTL, "RenewBatch")
		if i%4 == 0 { // only every fourth lease, to save hundreds of requests
			t.refused(t.b, grants[i])
		}
		t.release(grants[i])
	})
}

// batchShortens renews the leases again, some for less time than they have left. It makes batches of likely sizes of a
// frame, which therefore leave no part of a frame.
func (t *trial) batchShortens(grants []*grant, batch []backend.Renewal, released func(i int) bool) {
	for i := range batch {
		if i%5 == 3 {
			batch[i].TTL = t.long() / 2
		}
	}
	before := time.Now()
	var errs []error
	for n, most := 0, 512; n < len(batch); n += most {
		for most > len(batch)-n {
			most /= 2
		}
		errs = append(errs, t.batcher().RenewBatch(t.ctx, batch[n:n+most])...)
	}
	after := time.Now()
	t.answeredAll(errs, before)
	if len(errs) != len(batch) {
		t.fatalf("batches of %d leases have %d errors", len(batch), len(errs))
	}
	for i, g := range grants {
		switch {
		case released(i):
		case errs[i] != nil:
			t.fatalf("lease %d of %d, in a batch whose size is a power of two: %v", i, len(batch), errs[i])
		default:
			t.keepsDeadline(g, batch[i].TTL, before, after, "RenewBatch")
		}
	}
}

func renewBatchReportsEach(t *trial) {
	batcher := t.batcher()
	if errs := batcher.RenewBatch(t.ctx, nil); len(errs) != 0 {
		t.fatalf("an empty batch has %d errors", len(errs))
	}
	expired := t.acquire(t.a, t.newKey(), t.short())
	released := t.acquire(t.a, t.newKey(), t.long())
	t.release(released)
	t.expire(expired)
	overtaken := t.acquire(t.b, expired.key, t.long())
	foreign := t.acquire(t.b, t.newKey(), t.long())
	first, last := t.acquire(t.a, t.newKey(), t.long()), t.acquire(t.a, t.newKey(), t.long())
	bad := t.acquire(t.a, t.newKey(), t.long())
	strange := &grant{Lease: &strangeLease{bad.Lease}}
	badDeadline, foreignDeadline := bad.Deadline(), foreign.Deadline()

	want := []struct {
		what string
		g    *grant
		ttl  time.Duration
		err  error
	}{
		{"live lease", first, 2 * t.long(), nil},
		{"expired lease", expired, 2 * t.long(), backend.ErrLost},
		{"lease with TTL 0", bad, 0, backend.ErrInvalid},
		{"lease with a negative TTL", bad, -time.Second, backend.ErrInvalid},
		{"lease with a TTL over MaxTTL", bad, t.longest() + 1, backend.ErrInvalid},
		{"released lease", released, 2 * t.long(), backend.ErrLost},
		{"lease of another client", foreign, 2 * t.long(), backend.ErrInvalid},
		{"lease of another type", strange, 2 * t.long(), backend.ErrInvalid},
		{"live lease", last, 2 * t.long(), nil},
	}
	var batch []backend.Renewal
	for _, w := range want {
		batch = append(batch, backend.Renewal{Lease: w.g.Lease, TTL: w.ttl})
	}
	before := time.Now()
	errs := batcher.RenewBatch(t.ctx, batch)
	if len(errs) != len(want) {
		t.fatalf("a batch of %d leases has %d errors", len(want), len(errs))
	}
	t.answeredAll(errs, before)
	for i, w := range want {
		if !errors.Is(errs[i], w.err) {
			t.errorf("%s, number %d of the batch: %v, want %v", w.what, i, errs[i], w.err)
		}
		if w.err == nil && w.g.Deadline().Before(backend.Deadline(before, t.kept(w.ttl))) {
			t.errorf("%s, number %d of the batch: not renewed", w.what, i)
		}
	}
	if !t.sameDeadline(bad, badDeadline) || !t.sameDeadline(foreign, foreignDeadline) {
		t.errorf("a batch moved the deadline of a lease that it refused")
	}
	t.describes(overtaken, t.long())
	t.heldBy(overtaken)
	t.describes(foreign, t.long())
	t.staysFree(released.key, "after a batch with a released lease")

	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	deadline := first.Deadline()
	errs = batcher.RenewBatch(ended, batch[:1])
	if len(errs) != 1 {
		t.fatalf("a batch of one lease whose context had ended has %d errors", len(errs))
	}
	for i, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.errorf("number %d of a batch whose context had ended: %v, want context.Canceled", i, err)
		}
	}
	if first.Deadline().After(deadline) && !t.deadlineSlides(first) {
		t.errorf("a batch whose context had ended moved a deadline")
	}
	t.heldBy(first)
	for _, g := range []*grant{first, bad} { // a failure does not last
		t.renew(g, t.long())
		t.renewInBatch(g, t.long())
	}
	t.batchesOfOneKey(batcher)
	t.twiceInBatch(batcher)
	t.batchesAtOnce(batcher)
}

// A strangeLease is a lease of no store.
type strangeLease struct{ backend.Lease }

// batchOfOne renews g in a batch of one lease.
func (t *trial) batchOfOne(ctx context.Context, g *grant, ttl time.Duration) error {
	errs := g.client.(backend.BatchRenewer).RenewBatch(ctx, toBatch(ttl, g))
	if len(errs) != 1 {
		t.fatalf("a batch of 1 lease has %d errors", len(errs))
	}
	return errs[0]
}

// toBatch returns a batch that renews each lease for ttl.
func toBatch(ttl time.Duration, grants ...*grant) []backend.Renewal {
	var batch []backend.Renewal
	for _, g := range grants {
		batch = append(batch, backend.Renewal{Lease: g.Lease, TTL: ttl})
	}
	return batch
}
