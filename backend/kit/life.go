package kit

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/alarm"
)

// Requests are the requests that a store makes to its servers for one lease. Leases calls them; a store implements only
// these and its own Acquire. Both must be safe for concurrent use and honour ctx. If the client library does not honour
// ctx, they need a timeout of their own.
type Requests interface {
	// Guarantees returns the store's, as in Backend. The TTLs of renewals are rounded up by them. It makes no request.
	Guarantees() backend.Guarantees

	// RenewLease makes the lease of l.Key and l.Owner end ttl after the store sees the request, and returns the TTL
	// granted, which is at least ttl. It makes one attempt. ttl is already rounded by Guarantees.Round. ErrLost means
	// that the store answered and the owner does not hold the key; RenewLease never creates a new lease. Any other
	// error means unknown.
	RenewLease(ctx context.Context, l *Life, ttl time.Duration) (granted time.Duration, err error)

	// ReleaseLease removes whatever the store keeps of l.Owner on l.Key: its lease, or its place in a queue. nil means
	// removed. ErrLost means that the store answered and had nothing of this owner. Any other error means unknown. It
	// is repeated after an unknown outcome. It is also called for an owner whose Acquire failed ([Leases.Abandon]):
	// then l.Data is nil.
	ReleaseLease(ctx context.Context, l *Life) error
}

type state int8

const (
	live      state = iota
	releasing       // Release has begun: the holder has given up its claim
	released
	lost
	closed // its Leases was closed
)

// A Life is the life of one granted lease: granted, renewed, then released or lost. It is the Lease that stores built
// on Leases hand out.
type Life struct {
	Data any // the store's own, set at grant; the store guards it

	leases *Leases
	key    string
	owner  string
	token  uint64

	granted time.Time // when the reply came
	release bounded   // the context of the first release

	// Guarded by leases.mu.
	place       alarm.Entry[*Life] // at the deadline
	shared      bool               // never changes, and needs no lock: beside the flags it adds nothing to the size
	state       state
	ending      bool          // a release is under way
	unsure      bool          // a renewal had an unknown outcome: the store may hold the key for longer than we do
	lateRelease bool          // Release was called after the loss
	mayReturn   bool          // an unanswered request may grant the key to the owner again, after the release
	renewing    bool          // a renewal is under way
	lost        chan struct{} // nil until it is asked for
	asked       time.Duration // after granted, when the latest renewal began
	renewed     chan struct{} // closed at its end; nil until somebody waits for that
	ended       chan struct{} // of the release under way; nil until somebody waits for that
	kept        time.Duration // for how long after granted the store may keep the key, whatever requests went unanswered
	// the shortest that a renewal asks for which went unanswered, and may still reach the store; 0 for none
	lateTTL time.Duration
	onLost  func()
}

// Key is the key that is leased.
func (l *Life) Key() string { return l.key }

// Owner is the owner that holds the lease.
func (l *Life) Owner() string { return l.owner }

// Shared reports whether the lease was requested as shared.
func (l *Life) Shared() bool { return l.shared }

// Token implements Lease.
func (l *Life) Token() uint64 { return l.token }

// Lost implements Lease.
func (l *Life) Lost() <-chan struct{} {
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	return l.lostLocked()
}

func (l *Life) lostLocked() <-chan struct{} {
	if l.lost == nil {
		l.lost = make(chan struct{})
		if l.isLostLocked() {
			close(l.lost)
		}
	}
	return l.lost
}

func (l *Life) isLostLocked() bool { return l.state == lost || l.state == closed }

// Deadline implements Lease.
func (l *Life) Deadline() time.Time {
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
	return l.place.At()
}

// OnLost implements LossNotifier.
func (l *Life) OnLost(f func()) {
	l.leases.mu.Lock()
	over := l.isLostLocked()
	if !over {
		if earlier := l.onLost; earlier != nil {
			last := f
			f = func() { earlier(); last() }
		}
		l.onLost = f
	}
	l.leases.mu.Unlock()
	if over {
		f()
	}
}

// Lose ends the lease because the store said that it is gone, as when a session or connection has ended. It does
// nothing once the lease is over or its holder has begun to release it.
func (l *Life) Lose() {
	l.leases.mu.Lock()
	call := l.endLocked(lost)
	l.leases.mu.Unlock()
	call()
}

// pastLocked reports whether the deadline has passed, also when the timer has not run yet.
func (l *Life) pastLocked() bool { return time.Until(l.place.At()) <= 0 }

// endLocked moves a live lease to lost or closed, closes Lost, and returns what to run after unlocking.
func (l *Life) endLocked(to state) (call func()) {
	if l.state != live {
		return func() {}
	}
	return l.loseLocked(to)
}

// loseLocked is endLocked for a lease that may be under release too.
func (l *Life) loseLocked(to state) (call func()) {
	l.state = to
	l.leases.removeLocked(l)
	if l.lost != nil {
		close(l.lost)
	}
	if call = l.onLost; call == nil {
		return func() {}
	}
	l.onLost = nil
	return call
}

// overLocked is the error of a call on a lease that is not live, nil if it is.
func (l *Life) overLocked() error {
	switch l.state {
	case live:
		return nil
	case closed:
		return backend.ErrClosed
	default:
		return backend.ErrLost
	}
}
