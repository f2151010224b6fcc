package redlock

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// requests sends the requests of Leases to the nodes.
type requests struct{ r *Backend }

var _ kit.Requests = requests{}

// Guarantees implements [kit.Requests].
func (q requests) Guarantees() backend.Guarantees { return q.r.guarantees }

// RenewLease implements [kit.Requests].
func (q requests) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	granted, errs := q.r.sendBatch(ctx, []*kit.Life{l}, []time.Duration{ttl})
	return granted[0], errs[0]
}

// ReleaseLease implements [kit.Requests].
func (q requests) ReleaseLease(ctx context.Context, l *kit.Life) error {
	had, err := q.r.release(ctx, l.Data.(*claim), false)
	if err == nil && !had {
		return l.LostAfterDeadline()
	}
	return err
}

// release removes a claim from the nodes. It returns when a quorum of the nodes is free of the claim, and a moment
// later if the others are about to reply. It waits longer for nodes that decide whether the claim was lost. Nodes that
// do not reply are cleaned up in the background. had means that a quorum had the claim until then. If all is true,
// release waits for every node as long as for one that decides.
func (r *Backend) release(ctx context.Context, c *claim, all bool) (had bool, err error) {
	t := r.newTally()
	removed := 0
	if !all {
		t.decided = func() bool { return max(removed, t.number(yes)-removed) >= t.quorum }
	}
	r.removeAll(ctx, t, c, r.windowFor(c.ttl), func() { removed++ })
	switch free := t.number(yes); {
	case free-removed >= t.quorum:
		return false, backend.ErrLost // a quorum did not have it
	case free >= t.quorum:
		return removed >= t.quorum, nil // if not, the claim may have been lost: missing replies would decide
	}
	return false, r.noQuorum(t.nodeErrors())
}
