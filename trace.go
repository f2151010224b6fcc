package lock

import (
	"context"
	"time"
)

// A Tracer is called when acquisitions begin and end. It may also implement RenewalTracer and LeaseTracer. Its methods
// are called concurrently, by the goroutines that do the work, so they must not block or call the Locker.
//
// Every start has exactly one end.
type Tracer interface {
	// TraceAcquireStart is called when Acquire, TryAcquire or Resume begins. It returns ctx or a child of ctx, for
	// TraceAcquireEnd and for the store's requests.
	TraceAcquireStart(ctx context.Context, s AcquireStart) context.Context

	// TraceAcquireEnd is called just before Acquire, TryAcquire or Resume returns.
	TraceAcquireEnd(ctx context.Context, e AcquireEnd)
}

// A RenewalTracer is a Tracer that is also called for automatic renewals.
type RenewalTracer interface {
	// TraceRenewal is called after each attempt.
	TraceRenewal(r RenewalEnd)
}

// A LeaseTracer is a Tracer that is also called when leases end.
type LeaseTracer interface {
	// TraceLeaseEnd is called once for every lease whose acquisition ended as granted, handed on or resumed: at its
	// last Release, or when it is lost. ctx is the context of the Release, and context.Background for a loss.
	TraceLeaseEnd(ctx context.Context, e LeaseEnd)
}

// AcquireStart describes an acquisition that begins.
type AcquireStart struct {
	Backend string // as in errors: "redis"
	Key     string // with the Locker's prefix
	TTL     time.Duration
	Wait    bool // false for TryAcquire and Resume
	Shared  bool
}

// Outcome is how an acquisition ended.
type Outcome string

// The outcomes of an acquisition.
const (
	OutcomeGranted   Outcome = "granted"   // by the store
	OutcomeHandedOn  Outcome = "handed_on" // by the previous holder, inside the process
	OutcomeReentered Outcome = "reentered" // it was already held under the context
	OutcomeResumed   Outcome = "resumed"   // Resume returned the lease
	OutcomeHeld      Outcome = "held"      // the key was busy, and the caller did not wait
	OutcomeTimeout   Outcome = "timeout"   // WithWait passed and the key was busy, or the context's deadline passed
	OutcomeCanceled  Outcome = "canceled"  // the context was cancelled
	OutcomeClosed    Outcome = "closed"    // the Locker is closed or shutting down
	OutcomeError     Outcome = "error"     // anything else
)

// AcquireEnd describes an acquisition that has ended.
type AcquireEnd struct {
	AcquireStart
	Waited  time.Duration // from the start of the acquisition to its end
	Outcome Outcome
	Owner   string // of the lease; empty without a lease
	Token   uint64 // of the lease
	Err     error  // as returned to the caller
}

// RenewalEnd describes an attempt to renew a lease automatically.
type RenewalEnd struct {
	Backend string
	Key     string
	Owner   string
	Shared  bool
	Late    time.Duration // how late the attempt began
	Took    time.Duration // for the request, which may have renewed other leases too
	// nil if the lease was renewed, ErrLost if it had ended; after any other error the outcome is unknown
	Err error
}

// LeaseEnd describes a lease that has ended.
type LeaseEnd struct {
	Backend string
	Key     string
	Owner   string
	Token   uint64
	Shared  bool
	Held    time.Duration // since it was granted, handed on or resumed
	Lost    bool          // it ended without being released: Err matches ErrLost, or ErrClosed if its Locker was closed
	Err     error         // nil if it was released, or the error of the loss or of the release
}
