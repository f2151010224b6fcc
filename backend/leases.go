package backend

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/anylock/lock/internal/alarm"
)

// Leases tracks every lease that one client of a store has been granted, with one timer and, while idle, no goroutine.
// It is safe for concurrent use.
type Leases struct {
	requests Requests
	timeout  time.Duration

	mu     sync.Mutex
	clock  alarm.Clock[*Life] // of the deadlines of live leases
	closed bool

	cleanups sync.WaitGroup  // and releases under way
	base     context.Context // ends when every request must
	cancel   context.CancelFunc
}

// NewLeases returns an empty Leases whose releases and clean-ups go through r, each bounded by timeout.
func NewLeases(r Requests, timeout time.Duration) *Leases {
	s := &Leases{requests: r, timeout: timeout}
	s.clock = alarm.New[*Life](s.expire)
	s.base, s.cancel = context.WithCancel(context.Background())
	return s
}

// A Grant is what a store reports about a request that succeeded.
type Grant struct {
	Token uint64        // the store's fencing number
	Sent  time.Time     // taken before sending the request that granted (or last extended) the lease
	Got   time.Time     // when the answer came; zero if the store has not looked at the clock then, and Grant is to
	TTL   time.Duration // as granted, at least what was asked
	Data  any           // kept in Life.Data
}

// Grant begins the life of a lease that the store has given to r. It fails, and gives the lease back in the background,
// when ctx has ended, the grant arrived after its own deadline (ErrLost), its token is not below 2^55 (ErrUnsupported), or Leases is
// closed.
// After a failure the owner is spent: asking again under its name would race with giving the first grant back.
func (s *Leases) Grant(ctx context.Context, r Request, g Grant) (*Life, error) {
	l := &Life{Data: g.Data, leases: s, key: r.Key, owner: r.Owner, token: g.Token}
	l.place.Item = l
	deadline := Deadline(g.Sent, g.TTL)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := g.Got
	if now.IsZero() {
		now = g.Sent.Add(time.Since(g.Sent)) // the cheapest way to read the clock
	}
	l.granted, l.kept = now, g.TTL
	end, ends := ctx.Deadline()
	var err error
	switch {
	case s.closed:
		go s.releaseOnce(l) // Close does not wait for it: the client may be gone already
		return nil, ErrClosed
	case ctx.Err() != nil, ends && !now.Before(end):
		err = endError(ctx, nil)
	case g.Token >= TokenLimit:
		err = fmt.Errorf("%w: token %d is not below 2^55", ErrUnsupported, g.Token)
	case !now.Before(deadline):
		err = fmt.Errorf("%w: the grant arrived %v after its deadline", ErrLost, now.Sub(deadline).Round(time.Millisecond))
	default:
		s.clock.Set(&l.place, deadline)
		s.clock.Arm()
		return l, nil
	}
	s.abandonLocked(r.Key, r.Owner, g.Data, g.TTL)
	return nil, err
}

// Len is the number of live leases.
func (s *Leases) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.Len()
}

// Closed reports whether Close has been called.
func (s *Leases) Closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// closeGrace is how long Close lets requests go on: what they leave behind ends with its TTL.
const closeGrace = time.Second

// Close loses every live lease, and returns when the releases and clean-ups under way have ended, which it makes them do
// after a second. Call it after ending the Acquires that wait, whose Abandon is ignored from then on, and before closing
// the client that the requests go through. It reports whether this was the first call.
func (s *Leases) Close() bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	s.closed = true
	var calls []func()
	for e := s.clock.First(); e != nil; e = s.clock.First() {
		calls = append(calls, e.Item.endLocked(closed))
	}
	s.clock.Stop()
	s.mu.Unlock()
	for _, call := range calls {
		call()
	}
	grace := time.AfterFunc(closeGrace, s.cancel)
	s.cleanups.Wait()
	grace.Stop()
	s.cancel()
	return true
}

func (s *Leases) removeLocked(l *Life) { s.clock.Remove(&l.place) }

// setDeadlineLocked moves the deadline of a live lease.
func (l *Life) setDeadlineLocked(d time.Time) {
	l.leases.clock.Set(&l.place, d)
	l.leases.clock.Arm()
}

func (s *Leases) expire() {
	s.mu.Lock()
	s.clock.Woken()
	var calls []func()
	now := time.Now()
	for e := s.clock.FirstDue(now); e != nil; e = s.clock.FirstDue(now) {
		calls = append(calls, e.Item.endLocked(lost))
	}
	s.clock.Arm()
	s.mu.Unlock()
	for _, call := range calls {
		call()
	}
}
