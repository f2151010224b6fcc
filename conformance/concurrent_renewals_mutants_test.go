package conformance_test

import (
	"context"
	"time"
)

const keepsLater = "Renew that meets another keeps the later deadline"

// renewals of one lease that meet
var concurrentRenewalMutants = []mutant{{keepsLater, "ConcurrentRenewalsAgree"}}

// renewLater is a Renew that met another and never makes the lease end sooner for its holder.
func (b *bent) renewLater(ctx context.Context, ttl time.Duration) error {
	deadline := b.Deadline()
	err := b.Life.Renew(ctx, ttl)
	if err == nil && b.Life.Deadline().Before(deadline) && b.batched.CompareAndSwap(nil, &deadline) {
		time.AfterFunc(time.Until(deadline), func() { close(b.lost) })
	}
	return err
}
