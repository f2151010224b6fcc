package kit

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/alarm"
)

// Requests makes a store's requests to its servers for one lease. Leases calls it; a store implements only these
// methods and its own Acquire. The requests must be safe for concurrent use and honour ctx. If the client library does
// not honour ctx, they need a timeout of their own.
type Requests interface {
	// Guarantees returns the store's guarantees, as in Backend. Leases uses them to round up the TTLs of renewals.
	// Guarantees makes no request.
	Guarantees() backend.Guarantees

	// RenewLease makes the lease of l.Key and l.Owner end ttl after the store sees the request, and returns the granted
	// TTL, which is at least ttl. It makes one attempt, or reports those without a reply with [Life.NoteUnanswered]. ttl
	// is already rounded by Guarantees.Round. ErrLost means that the store answered and the owner does not hold the key;
	// RenewLease never creates a new lease. Any other error means that the outcome is unknown.
	RenewLease(ctx context.Context, l *Life, ttl time.Duration) (granted time.Duration, err error)

	// ReleaseLease removes anything that the store keeps of l.Owner on l.Key: its lease, or its place in a queue. nil
	// means removed. ErrLost means that the store answered and had nothing of this owner. After any other error the
	// outcome is unknown, and ReleaseLease is called again. It is also called for an owner whose Acquire failed
	// ([Leases.Abandon]): then l.Data is nil.
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

// A Life is one granted lease, from its grant to its release or loss. Stores that use Leases return it as their Lease.
type Life struct {
	Data any // the store's own data, set at grant; the store synchronizes access to it

	leases *Leases
	key    string
	owner  string
	token  uint64

	granted time.Time // when the reply arrived
	release bounded   // the context of the first release

	// Guarded by leases.mu.
	deadlineEntry   alarm.Entry[*Life] // due at the deadline
	shared          bool               // never changes, so needs no lock; next to the flags it takes no extra memory
	state           state
	releaseUnderWay bool
	lateRelease     bool          // Release was called after the loss
	mayRegrant      bool          // an unanswered request may grant the key to the owner again, after the release
	renewing        bool          // a renewal is under way
	lost            chan struct{} // created on first use
	renewSent       time.Duration // when the latest renewal was sent, counted from granted
	latestExpiry    time.Duration // how long after granted the store may keep the key, including unanswered requests
	// the shortest TTL of the unanswered renewals; 0 if there are none. Such a renewal may reach the store at any time in
	// the life of the lease: it then shortens the lease, or keeps the key beyond our deadline
	unansweredTTL time.Duration
	onLost        func()
}

// Key returns the leased key.
func (l *Life) Key() string { return l.key }

// Owner returns the owner of the lease.
func (l *Life) Owner() string { return l.owner }

// Shared reports whether the lease was requested as shared.
func (l *Life) Shared() bool { return l.shared }

// Token implements Lease.
func (l *Life) Token() uint64 { return l.token }

// Lost implements Lease.
func (l *Life) Lost() <-chan struct{} {
	l.leases.mu.Lock()
	defer l.leases.mu.Unlock()
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
	return l.deadlineEntry.At()
}

// OnLost implements LossNotifier.
func (l *Life) OnLost(f func()) {
	l.leases.mu.Lock()
	ended := l.isLostLocked()
	if !ended {
		if earlier := l.onLost; earlier != nil {
			last := f
			f = func() { earlier(); last() }
		}
		l.onLost = f
	}
	l.leases.mu.Unlock()
	if ended {
		f()
	}
}

// Lose ends the lease because the store has reported its loss, for example the end of a session or connection. It does
// nothing once the lease has ended or its holder has begun to release it.
func (l *Life) Lose() {
	l.leases.mu.Lock()
	l.endLocked(lost)
	l.leases.unlock()
}

// expireLocked ends a live lease if its deadline has passed at now, even if the timer has not fired yet.
func (l *Life) expireLocked(now time.Time) {
	if !now.Before(l.deadlineEntry.At()) {
		l.endLocked(lost)
	}
}

// endLocked moves a live lease to lost or closed.
func (l *Life) endLocked(to state) {
	if l.state == live {
		l.loseLocked(to)
	}
}

// loseLocked moves a lease that is live or under release to lost or closed, and closes Lost. Leases.unlock then calls
// the callback.
func (l *Life) loseLocked(to state) {
	l.state = to
	l.leases.changed.Broadcast()
	l.leases.clock.Remove(&l.deadlineEntry)
	if l.lost != nil {
		close(l.lost)
	}
	if l.onLost != nil {
		l.leases.losses = append(l.leases.losses, l.onLost)
		l.onLost = nil
	}
}

// endErrLocked returns the error of a call on a lease that is not live, or nil if it is live.
func (l *Life) endErrLocked() error {
	switch l.state {
	case live:
		return nil
	case closed:
		return backend.ErrClosed
	default:
		return backend.ErrLost
	}
}
