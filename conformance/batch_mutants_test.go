package conformance_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	batchStops       = "batch renews nothing behind a lost lease"
	batchStopsReader = "batch renews nothing behind a lost reader"
)

// batchMutants are bugs of batches whose replies are late, or report a loss.
var batchMutants = []mutant{
	{"batch's deadline counts from the answer", "LateAnswerCountsFromSending"},
	{"batch's deadline counts from the answer", "DeadlineAnchoredBeforeSend"},
	{"late answer of a batch revives the lease", "LateAnswerRevivesNothing"},
	{"hung batch keeps Lost open", "LateAnswerRevivesNothing"},
	{"hung batch keeps Lost open", "PartitionLosesBeforeNext"},
	{"unanswered shorter batch is not counted", "LateShorterRenewIsCounted"},
	{"loss that a batch hears of ends no lease", "EvictedBatchSparesNewHolder"},
	{"loss that a batch hears of ends no lease whose key is held", "EvictedBatchSparesNewHolder"},
	{"batch that meets a release takes the key again", "RenewRacesRelease"},
	{"batch takes a negative TTL", "RenewBatchReportsEach"},
	{"batch takes a TTL over MaxTTL", "RenewBatchReportsEach"},
	{"batch takes every lease for its own", "RenewBatchReportsEach"},
	{batchStops, "RenewBatchReportsEach"},
}

// retakes reports whether a renewal of a released lease acquires the free key again, as a bug of batches.
func (s *server) retakes(e *entry, owner string, c *client) bool {
	_, batch := c.narrow.inBatch.Load(owner)
	return batch && e.gaveUp == owner && s.is("batch that meets a release takes the key again")
}

// takesBad makes the leases and TTLs of a batch valid, as a bug.
func (c *client) takesBad(renewals []backend.Renewal) {
	for i, r := range renewals {
		switch {
		case r.TTL < 0 && c.is("batch takes a negative TTL"):
			renewals[i].TTL = shortest
		case r.TTL > backend.MaxTTL && c.is("batch takes a TTL over MaxTTL"):
			renewals[i].TTL = backend.MaxTTL
		case c.is("batch takes every lease for its own"):
			_ = r.Lease.(*kit.Life)
		}
	}
}

// batchBehindBack applies the bugs in which a batch renews a lease without informing its Life. done reports whether err
// is the result.
func (c *client) batchBehindBack(ctx context.Context, life *kit.Life, ttl time.Duration) (err error, done bool) {
	switch {
	case c.is("late answer of a batch revives the lease"):
		_, err = requests{c}.RenewLease(context.WithoutCancel(ctx), life, ttl)
	case c.is("unanswered shorter batch is not counted") && ttl < time.Until(life.Deadline())/2:
		err = c.do(ctx, func() {
			time.Sleep(50 * time.Millisecond) // sleeps: the store is slow
			c.server.renew(life.Key(), life.Owner(), c, ttl)
		})
	default:
		return nil, false
	}
	return err, true
}

// stopsAtLoss reports whether a batch renews nothing more, because the store has dropped one of the leases before, as a
// bug.
func (c *client) stopsAtLoss(before []*kit.Life) bool {
	if !c.is(batchStops, batchStopsReader) {
		return false
	}
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(before, func(l *kit.Life) bool {
		e := s.entryLocked(s.name(l.Key()))
		if l.Shared() {
			return c.is(batchStopsReader) && e.reader(l.Owner()) == nil
		}
		return c.is(batchStops) && e.owner != l.Owner()
	})
}

// hides reports whether a batch hides err from its lease, as a bug.
func (c *client) hides(life *kit.Life, err error) bool {
	return errors.Is(err, backend.ErrLost) && (c.is("loss that a batch hears of ends no lease") ||
		c.is("loss that a batch hears of ends no lease whose key is held") && c.server.inspect(life.Key()).Held())
}

// hangs applies the bug that the leases of a batch keep Lost open until the store replies. The caller calls answered
// after the batch.
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

// closesLost closes Lost once the batch that contains b has been answered.
func (b *bent) closesLost() {
	for ; b.hung.Load(); time.Sleep(time.Millisecond) {
	}
	close(b.lost)
}

// anchorsLate applies the bug that the deadlines of a batch count from the reply.
func (c *client) anchorsLate(renewals []backend.Renewal, errs []error) {
	for i, r := range renewals {
		if b, ok := r.Lease.(*bent); ok && errs[i] == nil && c.is("batch's deadline counts from the answer") {
			deadline := backend.Deadline(time.Now(), r.TTL)
			b.batched.Store(&deadline)
		}
	}
}
