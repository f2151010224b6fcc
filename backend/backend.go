// Package backend is the contract between package lock and the stores that keep locks.
//
// Applications use package lock. This package is for authors of stores: implement [Backend] and check the result with
// package conformance. Package backend/kit has what most stores need, from the life of a lease to waiting; with package
// backend/driver a store gets URLs.
//
// # Rules
//
// Every store keeps these, and the conformance suite checks them:
//
//  1. Exclusive: on one key no two leases overlap between grant and deadline or release, unless both are shared. Two
//     owners that share one client exclude each other too. A shared lease has its own owner, TTL, deadline and loss:
//     no request for one shared lease extends, shortens or ends another.
//  2. A lease's deadline counts from before its request was sent, less [Margin].
//  3. A TTL is a minimum: a coarser store rounds up. The key of a dead or frozen holder is free by the granted TTL plus
//     [Guarantees.MaxLate]. A refused attempt changes nothing.
//  4. An error after sending means unknown. The store then cleans up by owner, in the background, until the owner is
//     proven absent or the TTL has run out (Leases.Abandon of package kit). A retried request recognises its own owner.
//     A cancelled or expired context leaves nothing behind, and the error is the context's.
//  5. Renew never revives. Renew and Release by a stale lease never touch the new holder.
//  6. Lost closes at the deadline at the latest, even if a request hangs; at once if the store reports the loss; never
//     after a clean release.
//  7. Tokens strictly increase per key, within the scope that [Guarantees.Fencing] names. The token of an exclusive
//     lease is above every token of its key granted before, shared or not, and below every one granted after. Shared
//     leases that overlap have tokens in any order.
//  8. Keys are any non-empty bytes up to [MaxKeyLen], case-sensitive, encoded injectively.
//  9. No waiter stays parked on a free key. A waiter that is cancelled or killed delays the next one for a bounded
//     time. Where [Guarantees.FIFO] says so, grants follow arrival. Wake-ups are hints, always backed by a timer. With
//     shared leases, a request waits only for those ahead of it, holders or waiters, that it conflicts with: shared
//     waiters that follow each other enter together, no shared request passes a waiting exclusive one, and one that
//     does not wait gets ErrHeld behind a waiting exclusive one.
//  10. Leases and waiters cost O(1) goroutines and connections per process where the store allows. Close leaks nothing.
//
// # Optional interfaces
//
// A Backend may also be a [BatchRenewer]. It may report with [Readiness] that it cannot grant yet, and with [Capacity]
// how much room its server has. It may list its keys as a [Lister], end the leases of others as a [Breaker], return a
// lease to another process as a [Resumer], and report what is wrong with its servers as an [Examiner]. A Lease may also
// be a [LossNotifier].
package backend

import (
	"context"
	"fmt"
	"time"
)

const (
	// MaxKeyLen is the longest key in bytes that every store accepts.
	MaxKeyLen = 1024
	// MaxOwnerLen is the longest owner in bytes that every store accepts.
	MaxOwnerLen = 255
	// MaxTTL is the longest TTL that every store accepts.
	MaxTTL = 10 * 365 * 24 * time.Hour
	// TokenLimit is above every token: package lock shifts them by eight bits, and they stay below 2^63.
	TokenLimit = 1 << 55
)

// A Backend keeps locks in one store. All methods are safe for concurrent use.
//
// A store performs the atomic steps, and waits if the store itself can make clients wait. Package lock, its caller,
// does the retrying, queueing of goroutines, renewal, re-entry and logging.
type Backend interface {
	// Acquire grants r.Key to r.Owner for at least r.TTL.
	//
	// With r.Wait false it makes one attempt. A busy key is an error that matches ErrHeld, a *HeldError if the store
	// knows the holder. With r.Wait true it waits until the key is granted or ctx ends. Once the store has said that
	// the key is busy, it survives an outage of the store, or of the path to it, of five seconds at least.
	//
	// A waiter whose connection breaks may lose its place in the store's queue. It then queues again at the end: it
	// overtakes nobody, and the other waiters keep their order.
	//
	// Errors: ErrHeld, ErrInvalid (before any request), ErrUnsupported and ErrClosed mean that nothing was granted. Any
	// other error, including the context's, means that the outcome was unknown for a moment; the store makes sure in
	// the background that nothing is left behind. Acquire returns promptly when ctx ends. Two concurrent requests must
	// not share an owner.
	//
	// ErrLost means only that a grant arrived after its own deadline (Leases.Grant of package kit). Package lock then
	// tries again as another owner, or reports ErrUnavailable: its caller has had no lease.
	//
	// If ctx ends after the store has said that the key is busy, the error of a waiting Acquire matches ErrHeld and the
	// context's error (kit.ContextError with the refusal as the last error). If the store never answered, it does not
	// match ErrHeld. A time limit of the store itself that runs out is ErrUnavailable, never a context's error.
	Acquire(ctx context.Context, r Request) (Lease, error)

	// Inspect returns who holds key, for people and tools: the answer may be out of date by the time it arrives. For a
	// free key it returns the zero Holder and no error.
	Inspect(ctx context.Context, key string) (Holder, error)

	// Guarantees returns what this store promises. It makes no request, and the result never changes.
	Guarantees() Guarantees

	// Close ends waiting Acquires with ErrClosed, lets releases and clean-ups finish for a bounded time, and frees what
	// the backend itself opened. Leases that are still held are lost to their holders at once (Lost closes); their keys
	// become free when their TTL runs out. Later calls of Acquire, Inspect, Renew and Release return ErrClosed, and so
	// do those of the optional List, Break and Resume; a second Close returns nil.
	Close() error
}

// A Request asks for one lease.
type Request struct {
	Key   string        // what is locked: 1 to MaxKeyLen bytes of any value
	Owner string        // one acquisition, unique: see NewOwner
	TTL   time.Duration // how long the lease lives unless renewed; a store may round it up
	Wait  bool          // queue while the key is busy
	// Shared leases do not exclude each other. Each is a lease of its own, and excludes every lease that is not shared.
	// A store without Guarantees.Shared returns ErrUnsupported before any request.
	Shared bool
}

// Validate is ValidateFor a store that has no MaxTTL of its own and no shared leases.
func (r Request) Validate() error { return r.ValidateFor(Guarantees{}) }

// ValidateFor reports what a store with these guarantees refuses before any request: as ErrInvalid an argument that is
// out of range, and as ErrUnsupported a shared request where the store has no shared leases.
func (r Request) ValidateFor(g Guarantees) error {
	if err := ValidateKey(r.Key); err != nil {
		return err
	}
	switch {
	case r.Owner == "":
		return fmt.Errorf("%w: empty owner", ErrInvalid)
	case len(r.Owner) > MaxOwnerLen:
		return fmt.Errorf("%w: owner of %d bytes is longer than %d", ErrInvalid, len(r.Owner), MaxOwnerLen)
	}
	if err := g.ValidateTTL(r.TTL); err != nil {
		return err
	}
	switch {
	case r.Shared && !g.Shared:
		return fmt.Errorf("%w: shared leases", ErrUnsupported)
	}
	return nil
}

// ValidateKey reports, as ErrInvalid, a key that is empty or longer than MaxKeyLen.
func ValidateKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: empty key", ErrInvalid)
	case len(key) > MaxKeyLen:
		return fmt.Errorf("%w: key of %d bytes is longer than %d", ErrInvalid, len(key), MaxKeyLen)
	}
	return nil
}

// ValidateTTL reports, as ErrInvalid, a TTL that is not positive or longer than MaxTTL.
func ValidateTTL(ttl time.Duration) error {
	switch {
	case ttl <= 0:
		return fmt.Errorf("%w: ttl %v is not positive", ErrInvalid, ttl)
	case ttl > MaxTTL:
		return fmt.Errorf("%w: ttl %v is longer than %v", ErrInvalid, ttl, MaxTTL)
	}
	return nil
}

// A Lease is what an owner holds. All methods may be called by many goroutines at once.
type Lease interface {
	// Token is the store's fencing number for this grant, below 2^55; 0 where Guarantees.Fencing is FencingNone. It
	// does not change with renewal.
	Token() uint64

	// Deadline is the instant, on this process's monotonic clock, until which the lease is exclusive unless it is
	// renewed. It is never later than the store's own expiry.
	Deadline() time.Time

	// Renew makes the lease end ttl from now, rounded up as in Acquire. That may be sooner than before. A TTL
	// below Guarantees.MinTTL acts as MinTTL, and never ends the lease by itself. Renew makes one request, limited
	// by ctx and by the current deadline. ErrLost means that the lease is over, even if the key is free now. Any
	// error except ErrLost, ErrInvalid and ErrClosed means unknown: the earlier of the old and the new deadline
	// applies, and another attempt is safe.
	Renew(ctx context.Context, ttl time.Duration) error

	// Release gives the lease up. The request is sent even if ctx has ended, and has its own timeout. nil means
	// released; a second call also returns nil. ErrLost means that the lease had ended before. After any other error
	// the outcome is unknown: the store keeps trying in the background for a bounded time, and the TTL ends the lease
	// in any case.
	Release(ctx context.Context) error

	// Lost is closed when the lease ends without being released: at the deadline, or sooner if the store reports the
	// loss.
	Lost() <-chan struct{}
}

// A Holder describes who holds a key. The zero Holder describes a free key.
type Holder struct {
	// the owner of the lease; if leases are shared, of the one that ends last; empty when the key is free
	Owner   string
	Token   uint64        // the store's fencing number, 0 where the store cannot tell
	TTL     time.Duration // time left by the store's clock, 0 where the store cannot tell
	Waiters int           // how many wait in the store's own queue, -1 where the store cannot tell
	Shared  int           // how many shared leases hold the key; 0 if the lease is exclusive
}

// Held reports whether the key is held at all.
func (h Holder) Held() bool { return h.Owner != "" }

// A Renewal is one lease of a batch and the TTL to prolong it to.
type Renewal struct {
	Lease Lease // granted by the same backend
	TTL   time.Duration
}

// BatchRenewer is an optional interface of a Backend that renews many leases in few requests.
type BatchRenewer interface {
	// RenewBatch renews every lease and returns one error for each, in order, with the meaning of Lease.Renew's.
	RenewBatch(ctx context.Context, renewals []Renewal) []error
}

// Readiness is an optional interface of a Backend that may be open and answer but be unable to grant for a while.
type Readiness interface {
	// NotReady says which part of the store cannot grant, until when, and why. It is nil if the store can grant. It
	// uses what is already known: it makes no request, and does not block.
	NotReady() error
}

// Capacity is an optional interface of a Backend whose server has a limit for all clients together, as one on
// connections.
type Capacity interface {
	// Capacity asks the server how many more leases and waiters it has room for at present, of any client; 0 means that
	// there is no such limit.
	Capacity(ctx context.Context) (leases int, err error)
}

// Lister is an optional interface of a Backend that can list the held keys, for people and tools.
type Lister interface {
	// List returns the keys that begin with prefix and seem to be held, in any order. Some may be free by now, and keys
	// that were granted in the meantime may be missing. It may read everything that the store keeps. If ctx ends before
	// List is done, List returns the context's error.
	List(ctx context.Context, prefix string) (keys []string, err error)
}

// Breaker is an optional interface of a Backend that can end the lease of any client.
type Breaker interface {
	// Break ends the lease of owner on key as if its holder had released it: the next waiter is notified. The holder
	// learns of it soon if Guarantees.ReportsLoss is set, and otherwise when it renews. ErrLost means that owner does
	// not hold the key. ErrInvalid (a bad key) and ErrClosed mean that no request was made. After any other error the
	// outcome is unknown.
	Break(ctx context.Context, key, owner string) error
}

// Resumer is an optional interface of a Backend whose leases outlive the client that acquired them.
type Resumer interface {
	// Resume returns the lease that r.Owner holds on r.Key, whichever client acquired the lease, and extends it to
	// r.TTL from now, as Lease.Renew does. The token is that of the grant. r.Wait has no meaning. ErrLost means that
	// r.Owner does not hold the key in the mode of r.Shared; Resume never acquires. After any other error the lease is
	// as it was, or has been extended: unlike a failed Acquire, a failed Resume ends nothing.
	//
	// The other clients of the lease keep it until their own deadlines: each may renew it, and a release by one ends it
	// for all. No client is notified of another's Resume or Renew: a shorter TTL ends the lease sooner for all, even
	// before the Deadline of another client. An unanswered Resume may reach the store late, and sets its TTL then.
	Resume(ctx context.Context, r Request) (Lease, error)
}

// LossNotifier is an optional interface of a Lease that calls back, so that watching a lease needs no goroutine.
type LossNotifier interface {
	// OnLost arranges for f to run, on a goroutine of its own or its caller's, when Lost closes; at once if it has. f
	// must not block.
	OnLost(f func())
}
