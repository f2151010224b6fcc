package conformance_test

import (
	"context"

	"github.com/anylock/lock/backend"
)

const losesSecond = "failed Release that has met another is ErrLost"

// releases of one lease that meet
var concurrentReleaseMutants = []mutant{{losesSecond, "FailedReleasesMeet"}}

// releaseSecond is a Release that has met another, as a bug.
func (b *bent) releaseSecond(ctx context.Context) error {
	if b.Life.Release(ctx) != nil {
		return backend.ErrLost
	}
	return nil
}
