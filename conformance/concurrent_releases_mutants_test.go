package conformance_test

import (
	"context"

	"github.com/anylock/lock/backend"
)

const losesSecond = "failed Release that has met another is ErrLost"

// concurrentReleaseMutants are bugs of overlapping releases of one lease.
var concurrentReleaseMutants = []mutant{{losesSecond, "FailedReleasesMeet"}}

// releaseSecond is a Release that overlaps another, with the bug losesSecond.
func (b *bent) releaseSecond(ctx context.Context) error {
	if b.Life.Release(ctx) != nil {
		return backend.ErrLost
	}
	return nil
}
