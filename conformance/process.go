package conformance

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
)

// A ProcessFunc starts a second process with a client of the same store. The wall clock of the process is off by skew:
// ahead if skew is positive. Package conformance/process makes one that runs a test's own program. The suite kills the
// process at the end.
type ProcessFunc func(ctx context.Context, skew time.Duration) (Process, error)

// A Process is another process with one client of the store. Its methods may be called concurrently.
type Process interface {
	// Acquire makes the request in the process. Unlike Backend.Acquire, it returns when the request has begun; answered
	// receives the result.
	Acquire(r backend.Request) (answered <-chan ProcessGrant, err error)

	// Renew and Release make the request for the lease granted to owner. Their errors match the same sentinels as the
	// errors in the process.
	Renew(ctx context.Context, owner string, ttl time.Duration) error
	Release(ctx context.Context, owner string) error

	// Lost reports whether Lost of the lease granted to owner is closed.
	Lost(ctx context.Context, owner string) (bool, error)

	// Now returns the time by the process's wall clock.
	Now(ctx context.Context) (time.Time, error)

	// Freeze stops the process as SIGSTOP does; its connections stay open. Thaw lets the process continue.
	Freeze()
	Thaw()

	// Kill ends the process at once, as SIGKILL does, and returns when it has ended.
	Kill()
}

// A ProcessGrant is the result of an Acquire in another process.
type ProcessGrant struct {
	Token uint64
	Left  time.Duration // time until the lease's deadline when the process read it

	// Looked is when the process read Left, by the clock of the suite's process. It is zero if the processes share no
	// clock.
	Looked time.Time
	Err    error // matches the same sentinels as the error in the process
}
