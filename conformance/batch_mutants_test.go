package conformance_test

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// batches whose replies are late, or report a loss
var batchMutants = []mutant{
	{"batch's deadline counts from the answer", "LateAnswerCountsFromSending"},
	{"batch's deadline counts from the answer", "DeadlineAnchoredBeforeSend"},
	{"late answer of a batch revives the lease", "LateAnswerRevivesNothing"},
	{"hung batch keeps Lost open", "LateAnswerRevivesNothing"},
	{"hung batch keeps Lost open", "PartitionLosesBeforeNext"},
	{"unanswered shorter batch is not counted", "LateShorterRenewIsCounted"},
	{"loss that a batch hears of ends no lease", "EvictedBatchSparesNewHolder"},
	{"loss that a batch hears of ends no lease whose key is held", "EvictedBatchSparesNewHolder"},
}

// batchBehindBack renews a lease without its knowledge where that is the bug.
func (c *client) batchBehindBack(ctx context.Context, life *kit.Life, ttl time.Duration) (err error, done bool) {
	switch {
	case c.is("late answer of a batch revives the lease"):
		_, err = requests{c}.RenewLease(context.WithoutCancel(ctx), life, ttl)
	case c.is("unanswered shorter batch is not counted") && ttl < time.Until(life.Deadline())/2:
		err = c.do(ctx, func() {
			time.Sleep(50 * time.Millisecond) // sleeps: the store takes its time
			c.server.renew(life.Key(), life.Owner(), c, ttl)
		})
	default:
		return nil, false
	}
	return err, true
}

// hides reports whether a batch hides err from its lease.
func (c *client) hides(life *kit.Life, err error) bool {
	return errors.Is(err, backend.ErrLost) && (c.is("loss that a batch hears of ends no lease") ||
		c.is("loss that a batch hears of ends no lease whose key is held") && c.server.inspect(life.Key()).Held())
}

// hangs has the leases of a batch keep Lost open while it is under way, which is until the store answers, where that is
// the bug.
func (c *client) hangs(renewals []backend.Renewal) (answered func()) {
	if !c.is("hung batch keeps Lost open") {
		return func() {}
	}
	var all []*bent
	for _, r := range renewals {
		if b, ok := r.Lease.(*bent); ok {
			b.hung.Store(true)
			all = append(all, b)
		}
	}
	return func() {
		_ = c.do(context.Background(), func() {})
		for _, b := range all {
			b.hung.Store(false)
		}
	}
}

// closesLost closes Lost when a batch of which b is has been answered.
func (b *bent) closesLost() {
	for ; b.hung.Load(); time.Sleep(time.Millisecond) {
	}
	close(b.lost)
}

// anchorsLate has the deadlines of a batch count from the answer where that is the bug.
func (c *client) anchorsLate(renewals []backend.Renewal, errs []error) {
	for i, r := range renewals {
		if b, ok := r.Lease.(*bent); ok && errs[i] == nil && c.is("batch's deadline counts from the answer") {
			deadline := backend.Deadline(time.Now(), r.TTL)
			b.batched.Store(&deadline)
		}
	}
}
