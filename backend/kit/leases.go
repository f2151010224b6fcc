package kit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/internal/alarm"
)

// Leases does the bookkeeping for one client of a store. It tracks the leases that the client has been granted, with
// one timer and, while idle, no goroutine. It counts the calls of the client ([Leases.Call]), cleans up after failed
// calls, and ends everything in Close. It is safe for concurrent use.
type Leases struct {
	requests Requests
	timeout  time.Duration
	began    time.Time

	mu      sync.Mutex
	clock   alarm.Clock[*Life] // of the deadlines of live leases
	changed sync.Cond          // a renewal, a release or a lease has ended; few wait, because few calls share a lease
	losses  []func()           // the callbacks that unlock calls

	underway     atomic.Int64       // calls, renewals, releases and background work
	idle         chan struct{}      // receives a value when the last of these ends after Close has begun
	closing      context.Context    // ends, under mu, when Close begins
	base         context.Context    // ends when Close stops waiting: every request must end
	startClosing context.CancelFunc // ends closing
	cancelBase   context.CancelFunc // ends base
}

// NewLeases returns an empty Leases whose releases and clean-ups go through r, each bounded by timeout.
func NewLeases(r Requests, timeout time.Duration) *Leases {
	s := &Leases{requests: r, timeout: timeout, began: time.Now(), idle: make(chan struct{}, 1)}
	s.clock = alarm.New[*Life](s.expire)
	s.changed.L = &s.mu
	s.closing, s.startClosing = context.WithCancel(context.Background())
	s.base, s.cancelBase = context.WithCancel(context.Background())
	return s
}

// A Grant describes a request that granted or extended a lease.
type Grant struct {
	Token uint64        // the store's fencing number
	Sent  time.Time     // taken before sending the request that granted (or last extended) the lease
	Got   time.Time     // when the reply arrived; if zero, Grant reads the clock
	TTL   time.Duration // as granted, at least the requested TTL
	Data  any           // kept in Life.Data
	// Unsure means that a request for this grant got no reply and may still reach the store. The owner is then cleaned up
	// once more after the release. A request for a Resume renews the lease; what holds for Life.NoteUnanswered holds then.
	Unsure bool
}

// Grant begins the life of a lease that the store has granted to r. It fails if ctx has ended, the grant arrived after
// its own deadline (ErrLost), its token is not below 2^55 (ErrUnsupported), or Leases is closed. A failed Grant
// releases the lease in the background. Do not use the owner again then: another request could be granted, and the
// release would end that grant, too.
func (s *Leases) Grant(ctx context.Context, r backend.Request, g Grant) (*Life, error) {
	l, err := s.start(ctx, r, g)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, backend.ErrClosed): // background work may have ended already
		s.underway.Add(1)
		go func() {
			defer s.Leave()
			_ = s.tryRelease(context.Background(), l)
		}()
	default:
		s.cleanUp(l, g.TTL, g.Unsure)
	}
	return nil, err
}

// Resume begins, in this client, the life of a lease that r.Owner already holds at the store ([backend.Resumer]). g
// describes the request that extended the lease. Unlike Grant, a failed Resume ends nothing at the store: the lease is
// not this client's to end.
func (s *Leases) Resume(r backend.Request, g Grant) (*Life, error) {
	l, err := s.start(context.Background(), r, g)
	if err != nil {
		return nil, err
	}
	if g.Unsure {
		l.mayRegrant = false // a renewal grants nothing
		l.NoteUnanswered(g.TTL)
	}
	return l, nil
}

// start begins the life of a lease. It returns the lease also if it fails, for the clean-up.
func (s *Leases) start(ctx context.Context, r backend.Request, g Grant) (*Life, error) {
	l := &Life{Data: g.Data, leases: s, key: r.Key, owner: r.Owner, shared: r.Shared, token: g.Token}
	l.mayRegrant = g.Unsure
	l.deadlineEntry.Item = l
	deadline := backend.Deadline(g.Sent, g.TTL)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := g.Got
	if now.IsZero() {
		now = g.Sent.Add(time.Since(g.Sent)) // the cheapest way to read the clock
	}
	l.granted, l.latestExpiry = now, g.TTL
	switch {
	case s.Closed():
		return l, backend.ErrClosed
	case Ended(ctx):
		return l, ContextError(ctx, nil)
	case g.Token >= backend.TokenLimit:
		return l, fmt.Errorf("%w: token %d is not below 2^55", backend.ErrUnsupported, g.Token)
	case !now.Before(deadline):
		return l, fmt.Errorf("%w: the answer arrived %v after the deadline", backend.ErrLost,
			now.Sub(deadline).Round(time.Millisecond))
	}
	l.setDeadlineLocked(deadline)
	return l, nil
}

// Len returns the number of live leases.
func (s *Leases) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.Len()
}

// closeGrace is how long Close waits for calls, renewals, releases and clean-ups. It waits as long again after it has
// cancelled the remaining ones.
const closeGrace = time.Second

// Close ends the client's work in this order. It refuses new calls, ends every live lease as lost, and ends the
// contexts of the calls and renewals under way. It waits up to a second for these, releases and clean-ups. Then it ends
// all contexts ([Leases.Go]), and waits up to a second again. After Close, nothing uses the client's connections,
// except work that ignores its context: close the connections then, and call Drain. Close reports whether this was the
// first call.
func (s *Leases) Close() bool {
	s.mu.Lock()
	if s.Closed() {
		s.mu.Unlock()
		return false
	}
	s.startClosing()
	for e := s.clock.First(); e != nil; e = s.clock.First() {
		e.Item.endLocked(closed)
	}
	s.clock.Stop()
	s.unlock()
	s.Drain()
	s.cancelBase()
	s.Drain()
	return true
}

// setDeadlineLocked moves the deadline of a live lease.
func (l *Life) setDeadlineLocked(d time.Time) {
	l.leases.clock.Set(&l.deadlineEntry, d)
	l.leases.clock.Arm()
}

func (s *Leases) expire() {
	s.mu.Lock()
	s.clock.Woken()
	now := time.Now()
	for e := s.clock.FirstDue(now); e != nil; e = s.clock.FirstDue(now) {
		e.Item.endLocked(lost)
	}
	s.clock.Arm()
	s.unlock()
}

// unlock unlocks s.mu, then notifies the holders of the leases that were lost under the lock.
func (s *Leases) unlock() {
	losses := s.losses
	s.losses = nil
	s.mu.Unlock()
	for _, notify := range losses {
		notify()
	}
}
