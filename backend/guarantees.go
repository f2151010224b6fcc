package backend

import (
	"fmt"
	"time"
)

// Guarantees says what a store promises. The conformance suite measures each field; lock.Require demands it at opening.
type Guarantees struct {
	// MinTTL is the shortest TTL granted; a shorter request is rounded up to it.
	MinTTL time.Duration
	// Granularity is the unit to which a TTL is rounded up.
	Granularity time.Duration
	// MaxTTL is the longest TTL that may be requested; a longer one is ErrInvalid. 0 means this package's MaxTTL.
	MaxTTL time.Duration
	// MaxSilence is how long the store keeps a lease at most without contact to the client; 0 means for its TTL. A
	// lease with a longer TTL lives only while the client is in contact with the store: its Deadline is never further
	// away than MaxSilence, and moves forward by itself until the TTL has run out.
	MaxSilence time.Duration
	// MaxLate is how long after a granted TTL the key of a dead or frozen holder may still be refused.
	MaxLate time.Duration
	// MaxLeases is how many leases one Backend can hold at once; 0 means as many as memory allows. One more is
	// ErrUnavailable, or waits for its turn with Request.Wait.
	MaxLeases int
	// EarlyLoss says when the store may drop a live lease before its TTL, in words for people; empty means never. Only
	// if it mentions connections or sessions may a lease end because its holder's connection or session has ended.
	EarlyLoss string
	// ReportsLoss promises that Lost closes soon after somebody else has removed the lease: an operator, or
	// Breaker.Break. Without it, the holder learns of that at its next renewal. A holder that is disconnected then
	// learns of it soon after its client has reconnected.
	ReportsLoss bool
	// EnforcedBy names the clock that ends the lease of a dead holder, as in "server clock". If it says "wall clock", a
	// step back of that clock keeps the key of a dead holder for longer than MaxLate, by the size of the step, and a
	// step forward may end live leases if EarlyLoss mentions a clock. Otherwise no step of a clock changes when leases
	// end. If it says "leader", a restart of the store or a change of its leader counts the TTL of a dead holder anew.
	EnforcedBy string
	// Fencing says what the order of tokens survives.
	Fencing Fencing
	// FIFO says that waiting requests are granted in the order of their arrival at the store.
	FIFO bool
	// Wake says how a waiter learns that the key is free. Either way it has the key of a dead holder within a second of
	// the granted TTL and MaxLate, mostly.
	Wake Wake
	// Consistency says whether exclusion holds whatever fails, within the lease's time bounds.
	Consistency Consistency
	// Reach says which owners exclude each other.
	Reach Reach
	// Shared says that the store grants shared leases, for readers beside each other (rules 1, 7 and 9). Where it does
	// not, a shared Request is ErrUnsupported before any request to the store.
	Shared bool
}

// Fencing is what strictly increasing tokens survive. A higher value includes the lower ones.
type Fencing int

const (
	FencingNone    Fencing = iota // no tokens
	FencingProcess                // release and expiry, as long as this process lives
	FencingRestart                // restart of the store, or of every process where there is no server
	FencingLoss                   // loss of the store's data too, while wall clocks do not step back past the last grant
)

func (f Fencing) String() string {
	return name(int(f), "none", "process", "restart", "data loss")
}

// Wake is how a waiter learns that a key is free.
type Wake int

const (
	WakePoll Wake = iota // it polls, with jitter
	WakePush             // the store or a peer notifies it; a timer backs the message
)

func (w Wake) String() string { return name(int(w), "poll", "push") }

// Consistency is how far exclusion can be trusted when the store fails.
type Consistency int

const (
	BestEffort   Consistency = iota // a failover, restart or eviction of the store can let two owners in
	Linearizable                    // no fault of the store lets two owners in within the lease's time bounds
)

func (c Consistency) String() string { return name(int(c), "best effort", "linearizable") }

// Reach is which owners exclude each other. A higher value includes the lower ones.
type Reach int

const (
	ReachProcess Reach = iota // goroutines of one process
	ReachHost                 // processes of one host
	ReachNetwork              // hosts that share the store
)

func (r Reach) String() string { return name(int(r), "process", "host", "network") }

func name(i int, names ...string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("unknown(%d)", i)
	}
	return names[i]
}

// ValidateTTL reports, as ErrInvalid, a TTL that is not positive, or longer than a store with these guarantees grants.
func (g Guarantees) ValidateTTL(ttl time.Duration) error {
	if g.MaxTTL > 0 && ttl > g.MaxTTL {
		return fmt.Errorf("%w: ttl %v is longer than the store grants, %v", ErrInvalid, ttl, g.MaxTTL)
	}
	return ValidateTTL(ttl)
}

// Round returns the TTL that a store with these guarantees grants for ttl: at least MinTTL, rounded up to Granularity.
func (g Guarantees) Round(ttl time.Duration) time.Duration {
	ttl = max(ttl, g.MinTTL)
	if u := g.Granularity; u > 1 {
		if over := ttl % u; over != 0 {
			ttl += u - over
		}
	}
	return ttl
}

// Margin is how much earlier than its TTL a lease's deadline is: 1 % for clocks that run at different speeds, and 2 ms
// for timers that fire late.
func Margin(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// Deadline is the time until which a lease of ttl is exclusive if its request was sent at sent. Take sent before
// sending, never when the reply arrives.
func Deadline(sent time.Time, ttl time.Duration) time.Time { return sent.Add(ttl - Margin(ttl)) }
