package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/anylock/lock/backend"
)

// A renewal is a way to renew a lease.
type renewal struct {
	what  string
	renew func(ctx context.Context, g *grant, ttl time.Duration) error
}

// renewals returns the ways to renew a lease: alone, and in a batch if the store supports batches.
func (t *trial) renewals() []renewal {
	ways := []renewal{{"Renew", func(ctx context.Context, g *grant, ttl time.Duration) error { return g.Renew(ctx, ttl) }}}
	if _, ok := t.a.(backend.BatchRenewer); ok {
		ways = append(ways, renewal{inBatch, t.batchOfOne})
	}
	return ways
}

const inBatch = "RenewBatch"

// skips reports whether err may mean that r is a batch that has skipped a lease because another renewal of it was under
// way.
func (r renewal) skips(err error) bool {
	return r.what == inBatch && errors.Is(err, backend.ErrUnavailable)
}

// eachRenewal runs f n times for each way to renew a lease, as in inChunks.
func (t *trial) eachRenewal(n int, f func(i int, way renewal)) {
	ways := t.renewals()
	t.inChunks(n*len(ways), 1, func(i int) { f(i%n, ways[i/n]) })
}
