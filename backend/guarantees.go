package backend

import (
	"cmp"
	"fmt"
	"time"
)

// Guarantees describes what a store promises. The conformance suite measures each field, and lock.Require checks it
// when a store is opened.
type Guarantees struct {
	// MinTTL is the shortest TTL that the store grants; a shorter request is rounded up to it.
	MinTTL time.Duration
	// Granularity is the unit to which a TTL is rounded up.
	Granularity time.Duration
	// MaxTTL is the longest TTL that may be requested; a longer one is ErrInvalid. 0 means this package's MaxTTL.
	MaxTTL time.Duration
	// MaxSilence is how long the store keeps a lease at most without contact with the client; 0 means for the whole TTL. A
	// lease with a longer TTL lives only while the client is in contact with the store: its Deadline is never further away
	// than MaxSilence, and moves forward by itself until the TTL has run out.
	MaxSilence time.Duration
	// MaxLate is how long after the granted TTL a store may still refuse the key of a dead or frozen holder.
	MaxLate time.Duration
	// MaxLeases is how many leases one Backend can hold at once; 0 means as many as memory allows. At the limit, Acquire
	// returns ErrUnavailable, or waits for its turn if Request.Wait is set.
	MaxLeases int
	// EarlyLoss describes, in words for people, when the store may drop a live lease before its TTL; empty means never.
	// Only if it mentions connections or sessions may a lease end because its holder's connection or session has ended.
	EarlyLoss string
	// ReportsLoss promises that Lost closes soon after somebody else has removed the lease: an operator, or Breaker.Break.
	// If the holder is disconnected at that time, Lost closes soon after its client has reconnected. Without ReportsLoss,
	// the holder finds out at its next renewal.
	ReportsLoss bool
	// EnforcedBy names the clock that ends the lease of a dead holder, for example "server clock". If it contains "wall
	// clock", a step back of that clock keeps the key of a dead holder for longer than MaxLate, by the size of the step,
	// and a step forward may end live leases if EarlyLoss mentions a clock. Otherwise no clock step changes when leases
	// end. If it contains "leader", a restart of the store or a change of its leader restarts the TTL of a dead holder.
	EnforcedBy string
	// Fencing describes which events the order of tokens survives.
	Fencing Fencing
	// FIFO promises that waiting requests are granted in the order of their arrival at the store.
	FIFO bool
	// Wake is how a waiter learns that the key is free. In either case, a waiter usually has the key of a dead holder
	// within a second of the granted TTL plus MaxLate.
	Wake Wake
	// Consistency describes whether exclusion holds no matter what fails, within the lease's time bounds.
	Consistency Consistency
	// Reach describes which owners exclude each other.
	Reach Reach
	// Shared promises that the store grants shared leases, so that several readers can hold a key (rules 1, 7 and 9). If
	// it is false, a shared Request is ErrUnsupported before any request to the store.
	Shared bool
}

// Fencing describes which events the strict order of tokens survives. A higher value includes the lower ones.
type Fencing int

const (
	FencingNone    Fencing = iota // no tokens
	FencingProcess                // release and expiry, as long as this process lives
	FencingRestart                // restart of the store, or of every process if there is no server
	FencingLoss                   // loss of the store's data too, unless a wall clock steps back past the last grant
)

func (f Fencing) String() string {
	return name(int(f), "none", "process", "restart", "data loss")
}

// Wake is how a waiter learns that a key is free.
type Wake int

const (
	WakePoll Wake = iota // the waiter polls, with jitter
	WakePush             // the store or a peer notifies the waiter; a timer covers lost notifications
)

func (w Wake) String() string { return name(int(w), "poll", "push") }

// Consistency describes whether exclusion holds when the store fails.
type Consistency int

const (
	BestEffort   Consistency = iota // a failover, restart or eviction of the store can give two owners the key
	Linearizable                    // no failure of the store gives two owners the key within the lease's time bounds
)

func (c Consistency) String() string { return name(int(c), "best effort", "linearizable") }

// Reach describes which owners exclude each other. A higher value includes the lower ones.
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

// ValidateTTL returns ErrInvalid if ttl is not positive, or longer than a store with these guarantees grants.
func (g Guarantees) ValidateTTL(ttl time.Duration) error {
	longest := min(cmp.Or(g.MaxTTL, MaxTTL), MaxTTL)
	switch {
	case ttl <= 0:
		return fmt.Errorf("%w: ttl %v is not positive", ErrInvalid, ttl)
	case ttl > longest:
		return fmt.Errorf("%w: ttl %v is longer than %v", ErrInvalid, ttl, longest)
	}
	return nil
}

// Round returns the TTL that a store with these guarantees grants for ttl: at least MinTTL, rounded up to Granularity.
func (g Guarantees) Round(ttl time.Duration) time.Duration {
	unit := max(g.Granularity, 1)
	return (max(ttl, g.MinTTL) + unit - 1).Truncate(unit)
}

// Margin returns how much shorter the time to a lease's deadline is than its TTL: 1 % for clocks that run at different
// speeds, and 2 ms for timers that fire late.
func Margin(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// Deadline returns the time until which a lease of ttl is exclusive if its request was sent at sent. Read the clock for
// sent before sending, never when the reply arrives.
func Deadline(sent time.Time, ttl time.Duration) time.Time { return sent.Add(ttl - Margin(ttl)) }
