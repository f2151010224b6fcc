package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

var batchChecks = []Check{
	{
		Name: "RenewBatchRenews",
		Rule: "BatchRenewer.RenewBatch renews every lease, each for its own TTL",
		run:  renewBatchRenews,
	},
	{
		Name: "RenewBatchTellsEach",
		Rule: "BatchRenewer.RenewBatch returns one error for each lease, in order, with the meaning of Lease.Renew's",
		run:  renewBatchTellsEach,
	},
}

// answeredAll is answered for a batch.
func (t *trial) answeredAll(errs []error, begun time.Time) {
	for _, err := range errs {
		t.answered(err, begun)
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

func renewBatchRenews(t *trial) {
	batcher := t.batcher()
	if errs := batcher.RenewBatch(t.ctx, nil); len(errs) != 0 {
		t.fatalf("an empty batch has %d errors", len(errs))
	}
	n := min(150, t.h.Many)
	var batch []backend.Renewal
	var grants []*grant
	for i := range n {
		g := t.acquire(t.a, t.newKey(), t.long())
		grants = append(grants, g)
		batch = append(batch, backend.Renewal{Lease: g.Lease, TTL: t.long() + time.Duration(i)*t.long()/time.Duration(n)})
	}
	before := time.Now()
	errs := batcher.RenewBatch(t.ctx, batch)
	after := time.Now()
	if len(errs) != n {
		t.fatalf("a batch of %d leases has %d errors", n, len(errs))
	}
	t.answeredAll(errs, before)
	for i, g := range grants {
		if errs[i] != nil {
			t.fatalf("lease %d of %d: %v", i, n, errs[i])
		}
		ttl := batch[i].TTL
		if d := g.Deadline(); d.Before(backend.Deadline(before, t.kept(ttl))) || d.After(backend.Deadline(after, t.g.Round(ttl))) {
			t.fatalf("lease %d of %d: renewed for %v, the deadline is %v away", i, n, ttl, d.Sub(before))
		}
	}
	for _, i := range []int{0, n / 2, n - 1} {
		t.heldBy(grants[i])
		t.describes(grants[i], batch[i].TTL)
	}
	for _, g := range grants {
		t.release(g)
	}
}

func renewBatchTellsEach(t *trial) {
	batcher := t.batcher()
	expired := t.acquire(t.a, t.newKey(), t.short())
	released := t.acquire(t.a, t.newKey(), t.long())
	t.release(released)
	t.expire(expired)
	overtaken := t.acquire(t.b, expired.key, t.long())
	foreign := t.acquire(t.b, t.newKey(), t.long())
	first, last := t.acquire(t.a, t.newKey(), t.long()), t.acquire(t.a, t.newKey(), t.long())
	bad := t.acquire(t.a, t.newKey(), t.long())
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
		{"released lease", released, 2 * t.long(), backend.ErrLost},
		{"lease of another client", foreign, 2 * t.long(), backend.ErrInvalid},
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
	t.stays(released.key, "after a batch with a released lease")

	ended, cancel := context.WithCancel(t.ctx)
	cancel()
	deadline := first.Deadline()
	for i, err := range batcher.RenewBatch(ended, batch[:1]) {
		if !errors.Is(err, context.Canceled) {
			t.errorf("number %d of a batch whose context had ended: %v, want context.Canceled", i, err)
		}
	}
	if first.Deadline().After(deadline) && !t.movesOn(first) {
		t.errorf("a batch whose context had ended moved a deadline")
	}
	t.heldBy(first)
}

// renewals is a batch that prolongs each lease to ttl.
func renewals(ttl time.Duration, grants ...*grant) []backend.Renewal {
	var batch []backend.Renewal
	for _, g := range grants {
		batch = append(batch, backend.Renewal{Lease: g.Lease, TTL: ttl})
	}
	return batch
}
