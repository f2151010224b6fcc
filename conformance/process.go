package conformance

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
)

// A ProcessFunc starts a second process with a client of the same store, whose wall clock is off by skew: forward if it
// is positive. Package conformance/process makes one of a test's own program. The suite kills the process at the end.
type ProcessFunc func(ctx context.Context, skew time.Duration) (Process, error)

// A Process is another process with one client of the store. Calls may overlap.
type Process interface {
	// Acquire makes the request in the process. Unlike Backend.Acquire it returns when the request has been begun:
	// answered gets the result.
	Acquire(r backend.Request) (answered <-chan ProcessGrant, err error)

	// Renew and Release make the request for the lease granted to owner. Their errors match the sentinels that those in
	// the process match.
	Renew(ctx context.Context, owner string, ttl time.Duration) error
	Release(ctx context.Context, owner string) error

	// Lost reports whether Lost of the lease granted to owner is closed.
	Lost(ctx context.Context, owner string) (bool, error)

	// Now is the process's wall clock.
	Now(ctx context.Context) (time.Time, error)

	// Freeze stops it from running, connections staying open, as SIGSTOP does; Thaw lets it go on.
	Freeze()
	Thaw()

	// Kill ends it at once, as SIGKILL does, and returns when it has ended.
	Kill()
}

// A ProcessGrant is how an Acquire in another process ended.
type ProcessGrant struct {
	Token uint64
	Left  time.Duration // until the lease's deadline, when the process looked

	// Looked is the time of the inspection, by the clock of the suite's process; zero where processes have no clock in
	// common.
	Looked time.Time
	Err    error // matches the sentinels that the error in the process matches
}
