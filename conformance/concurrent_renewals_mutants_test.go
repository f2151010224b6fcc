package conformance_test

import (
	"context"
	"time"
)

const keepsLater = "Renew that meets another keeps the later deadline"

// concurrentRenewalMutants are bugs of overlapping renewals of one lease.
var concurrentRenewalMutants = []mutant{{keepsLater, "ConcurrentRenewalsAgree"}}

// renewLater is a Renew that overlaps another. With the bug keepsLater, it never moves the deadline back.
func (b *bent) renewLater(ctx context.Context, ttl time.Duration) error {
	deadline := b.Deadline()
	err := b.Life.Renew(ctx, ttl)
	if err == nil && b.Life.Deadline().Before(deadline) && b.batched.CompareAndSwap(nil, &deadline) {
		time.AfterFunc(time.Until(deadline), func() { close(b.lost) })
	}
	return err
}
