// Package backend defines the contract between package lock and the stores that keep locks.
//
// Applications use package lock. This package is for store authors: implement [Backend] and check the result with
// package conformance. Package backend/kit implements what most stores need, such as the life of a lease and waiting.
// Package backend/driver opens a store by URL.
//
// # Rules
//
// Every store must keep these rules, and the conformance suite checks them:
//
//  1. Exclusive: on one key no two leases overlap between grant and deadline or release, unless both are shared. Two
//     owners that share one client exclude each other too. A shared lease has its own owner, TTL, deadline and loss:
//     no request for one shared lease extends, shortens or ends another.
//  2. A lease's deadline is its TTL less [Margin], counted from before its request was sent.
//  3. A TTL is a minimum: a store with coarser units rounds it up. When the granted TTL plus [Guarantees.MaxLate] has
//     passed, the key of a dead or frozen holder is free. A refused attempt changes nothing.
//  4. An error after the request was sent means that the outcome is unknown. The store then cleans up by owner, in the
//     background, until the owner is proven absent or the TTL has run out (Leases.Abandon of package kit). A retried
//     request recognises its own owner. A cancelled or expired context leaves nothing behind, and the error is the
//     context's. No method returns a context's error while its own context lives.
//  5. Renew never revives a lease. Renew and Release by a stale lease never touch the new holder.
//  6. Lost closes at the deadline at the latest, even if a request hangs. It closes at once if the store reports the
//     loss, and never after a clean release.
//  7. Tokens strictly increase per key, within the scope that [Guarantees.Fencing] names. The token of an exclusive
//     lease is greater than every token granted before on its key, shared or not, and less than every token granted
//     after. The tokens of overlapping shared leases are in no particular order.
//  8. Keys are any non-empty bytes up to [MaxKeyLen], case-sensitive, encoded injectively.
//  9. No waiter stays parked on a free key. A waiter that is cancelled or killed delays the next waiter for a bounded
//     time. If [Guarantees.FIFO] is set, grants follow arrival. Wake-ups are hints, always backed by a timer. With
//     shared leases, a request waits only for the holders and waiters ahead of it that it conflicts with. Consecutive
//     shared waiters enter together. No shared request passes a waiting exclusive request: a shared request that does
//     not wait gets ErrHeld instead.
//  10. Leases and waiters cost O(1) goroutines and connections per process if the store allows it. Close leaks nothing.
//
// # Optional interfaces
//
// A Backend may also be a [BatchRenewer]. It may report with [Readiness] that it cannot grant yet, and with [Capacity]
// how many more leases its server has room for. It may list its keys as a [Lister], end the leases of others as a
// [Breaker], return a lease to another process as a [Resumer], and report what is wrong with its servers as an
// [Examiner]. A Lease may also be a [LossNotifier].
package backend

import (
	"context"
	"fmt"
	"time"
)

const (
	// MaxKeyLen is the length in bytes of the longest key that every store accepts.
	MaxKeyLen = 1024
	// MaxOwnerLen is the length in bytes of the longest owner that every store accepts.
	MaxOwnerLen = 255
	// MaxTTL is the longest TTL that every store accepts.
	MaxTTL = 10 * 365 * 24 * time.Hour
	// TokenLimit is greater than every token. Package lock shifts tokens left by eight bits, and the result stays below
	// 2^63.
	TokenLimit = 1 << 55
)

// A Backend keeps locks in one store. All methods are safe for concurrent use. What a call returns, such as a slice or a
// [HeldError], belongs to the caller: no later call changes it.
//
// A Backend performs the atomic steps, and waits for a busy key if Request.Wait is set. Package lock, its caller,
// handles retries, queueing of goroutines, renewal, re-entry and logging.
type Backend interface {
	// Acquire grants r.Key to r.Owner for at least r.TTL.
	//
	// If r.Wait is false, Acquire makes one attempt. If the key is busy, the error matches ErrHeld, and is a *HeldError if
	// the store knows the holder. If r.Wait is true, Acquire waits until the key is granted or ctx ends. Once the store
	// has reported that the key is busy, Acquire survives an outage of the store, or of the path to it, of at least five
	// seconds.
	//
	// If a waiter's connection breaks, the waiter may lose its place in the store's queue. It then queues again at the
	// end: it overtakes nobody, and the other waiters keep their order.
	//
	// Errors: ErrHeld, ErrInvalid (before any request), ErrUnsupported and ErrClosed mean that nothing was granted. Any
	// other error, including the context's, means that the outcome was unknown for a moment; the store makes sure in the
	// background that nothing is left behind. Acquire returns promptly when ctx ends. Two concurrent requests must not
	// have the same owner.
	//
	// ErrLost means only that a grant arrived after its own deadline (Leases.Grant of package kit). Package lock then
	// tries again as another owner, or reports ErrUnavailable, because its caller never had a lease.
	//
	// If ctx ends after the store has reported that the key is busy, the error of a waiting Acquire matches both ErrHeld
	// and the context's error (kit.ContextError with the refusal as the last error). If the store never answered, the
	// error does not match ErrHeld. If a time limit of the store itself runs out, the error is ErrUnavailable, never a
	// context's error.
	Acquire(ctx context.Context, r Request) (Lease, error)

	// Inspect returns who holds key. It is for people and tools: the answer may be out of date by the time it arrives. For
	// a free key, Inspect returns the zero Holder and no error.
	Inspect(ctx context.Context, key string) (Holder, error)

	// Guarantees returns what this store promises. It makes no request, and its result never changes.
	Guarantees() Guarantees

	// Close ends waiting Acquires with ErrClosed, lets releases and clean-ups finish for a bounded time, and frees what
	// the backend itself opened. Leases that are still held are lost to their holders at once (Lost closes); their keys
	// become free when their TTL runs out. Later calls of Acquire, Inspect, Renew and Release return ErrClosed, and so do
	// the optional List, Break and Resume. A second Close returns nil.
	Close() error
}

// A Request describes one requested lease.
type Request struct {
	Key   string        // the key to lock: 1 to MaxKeyLen bytes of any value
	Owner string        // identifies this acquisition; unique: see NewOwner
	TTL   time.Duration // how long the lease lives unless renewed; a store may round it up
	Wait  bool          // queue while the key is busy
	// Shared requests a shared lease. Shared leases do not exclude each other. Each is separate, and excludes every lease
	// that is not shared. If Guarantees.Shared is false, the store returns ErrUnsupported before any request.
	Shared bool
}

// Validate is ValidateFor for a store that has no MaxTTL of its own and no shared leases.
func (r Request) Validate() error { return r.ValidateFor(Guarantees{}) }

// ValidateFor returns the error with which a store with these guarantees refuses r before any request. It is ErrInvalid
// if an argument is out of range, ErrUnsupported if r is shared and the store has no shared leases, and nil if r is
// valid.
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
	if r.Shared && !g.Shared {
		return fmt.Errorf("%w: shared leases", ErrUnsupported)
	}
	return nil
}

// ValidateKey returns ErrInvalid if key is empty or longer than MaxKeyLen.
func ValidateKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: empty key", ErrInvalid)
	case len(key) > MaxKeyLen:
		return fmt.Errorf("%w: key of %d bytes is longer than %d", ErrInvalid, len(key), MaxKeyLen)
	}
	return nil
}

// ValidateTTL returns ErrInvalid if ttl is not positive, or longer than MaxTTL.
func ValidateTTL(ttl time.Duration) error { return Guarantees{}.ValidateTTL(ttl) }

// A Lease is one owner's claim on one key. All methods are safe for concurrent use. Token, Deadline, Lost and the
// optional OnLost make no request, and do not block, even while a request of the lease is under way.
type Lease interface {
	// Token returns the store's fencing number for this grant, which is below 2^55; 0 if Guarantees.Fencing is
	// FencingNone. Renewal does not change it.
	Token() uint64

	// Deadline returns the time, on this process's monotonic clock, until which the lease is exclusive. Renewal moves it.
	// The deadline is never later than the store's own expiry.
	Deadline() time.Time

	// Renew makes the lease expire ttl from now, rounded up as in Acquire. The new expiry may be earlier than the old one.
	// A TTL below Guarantees.MinTTL acts as MinTTL, and never ends the lease by itself. Renew makes one request, limited
	// by ctx and by the current deadline. ErrLost means that the lease has ended, even if the key is free now. Any error
	// except ErrLost, ErrInvalid and ErrClosed means that the outcome is unknown: the earlier of the old and the new
	// deadline applies, and another attempt is safe.
	Renew(ctx context.Context, ttl time.Duration) error

	// Release ends the lease. The request is sent even if ctx has ended, and has its own timeout. nil means that the lease
	// is released; a second call also returns nil. ErrLost means that the lease had ended before. After any other error
	// the outcome is unknown: the store keeps trying in the background for a bounded time, and the TTL ends the lease in
	// any case.
	Release(ctx context.Context) error

	// Lost returns a channel that is closed when the lease ends without being released: at the deadline, or earlier if the
	// store reports the loss.
	Lost() <-chan struct{}
}

// A Holder describes who holds a key. The zero Holder describes a free key.
type Holder struct {
	// the owner of the lease; with shared leases, the owner of the lease that ends last; empty if the key is free
	Owner   string
	Token   uint64        // the store's fencing number, 0 if the store does not know it
	TTL     time.Duration // remaining time by the store's clock, never negative, 0 if the store does not know it
	Waiters int           // number of waiters in the store's own queue, -1 if the store does not know it
	Shared  int           // number of shared leases on the key; 0 if the lease is exclusive
}

// Held reports whether somebody holds the key.
func (h Holder) Held() bool { return h.Owner != "" }

// A Renewal is one lease of a batch, and the TTL to renew it to.
type Renewal struct {
	Lease Lease // granted by the same backend
	TTL   time.Duration
}

// BatchRenewer is an optional interface of a Backend that renews many leases in few requests.
type BatchRenewer interface {
	// RenewBatch renews every lease. It returns one error for each lease, in order, with the same meaning as the error of
	// Lease.Renew.
	RenewBatch(ctx context.Context, renewals []Renewal) []error
}

// Readiness is an optional interface of a Backend that can be open and respond, yet be unable to grant for a while.
type Readiness interface {
	// NotReady returns an error that names the part of the store that cannot grant, until when, and why. It returns nil if
	// the store can grant. NotReady reports what is already known: it makes no request, and does not block.
	NotReady() error
}

// Capacity is an optional interface of a Backend whose server has a limit for all clients together, such as a maximum
// number of connections.
type Capacity interface {
	// Capacity makes a request to find out how many more leases and waiters, of any client, the server has room for at
	// present. 0 means that there is no such limit.
	Capacity(ctx context.Context) (leases int, err error)
}

// Lister is an optional interface of a Backend that can list the held keys, for people and tools.
type Lister interface {
	// List returns the keys that begin with prefix and seem to be held, in any order. Some may be free by now, and keys
	// that were granted in the meantime may be missing. List may read everything that the store keeps. If ctx ends before
	// List is done, List returns the context's error.
	List(ctx context.Context, prefix string) (keys []string, err error)
}

// Breaker is an optional interface of a Backend that can end the lease of any client.
type Breaker interface {
	// Break ends the lease of owner on key as if its holder had released it: the next waiter is notified. If
	// Guarantees.ReportsLoss is set, the holder is notified soon; otherwise it finds out when it renews. ErrLost means
	// that owner does not hold the key. ErrInvalid (a bad key) and ErrClosed mean that no request was made. After any
	// other error the outcome is unknown.
	Break(ctx context.Context, key, owner string) error
}

// Resumer is an optional interface of a Backend whose leases outlive the client that acquired them.
type Resumer interface {
	// Resume returns the lease that r.Owner holds on r.Key, no matter which client acquired it, and extends it to r.TTL
	// from now, as Lease.Renew does. The token is that of the grant. r.Wait has no meaning. ErrLost means that r.Owner
	// does not hold the key in the mode of r.Shared; Resume never acquires. After any other error the lease is unchanged
	// or has been extended: unlike a failed Acquire, a failed Resume ends nothing.
	//
	// The other clients of the lease keep it until their own deadlines, and so does the Lease that the same client had
	// before. Each may renew it, and a release by one ends it for all. No client is notified of another client's Resume
	// or Renew: a shorter TTL ends the lease sooner for all, even before the Deadline of another client. A Resume without
	// a reply may reach the store late, and sets its TTL then.
	Resume(ctx context.Context, r Request) (Lease, error)
}

// LossNotifier is an optional interface of a Lease that makes a callback when it is lost, so that watching a lease
// needs no goroutine.
type LossNotifier interface {
	// OnLost arranges for f to run when Lost closes, or at once if Lost has closed. f may run on any goroutine, including
	// that of OnLost's caller, and must not block. f may call the methods of the lease that do not block, including
	// OnLost.
	OnLost(f func())
}
