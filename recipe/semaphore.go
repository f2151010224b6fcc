package recipe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/anylock/lock"
)

// ErrLimit means that another process uses the same semaphore with a higher limit, and holds more permits than this one's limit allows.
var ErrLimit = errors.New("another process has a higher limit")

// A Semaphore lets a limited number of holders work at the same time, in all processes together. Each permit is a lease of its own, so
// that a holder that dies returns its permit by the TTL. Create it with NewSemaphore.
//
// # Keys
//
// The permits of the semaphore "mail" with limit 3 are the keys "mail/permit/0", "mail/permit/1" and "mail/permit/2". The key "mail/queue" is held
// by the one who is next. locks.List(ctx, "mail/permit/") tells who holds permits, where the store can list. Tokens rise for each
// permit, not for the semaphore: let a resource compare those of the same Lease.Key only.
//
// # Order
//
// Only the first in line waits for permits, for all of them at once. The others wait for the key of the queue, and are served in the order
// of Locker.Acquire: first come, first served where Guarantees.FIFO says so. TryAcquire does not queue. If the first in line
// dies, the next one takes its place after the TTL.
//
// # Different limits
//
// Use the same limit everywhere. A process whose limit is n uses the permits 0 to n-1, always the lowest that is free. So where
// limits differ, no more permits are held than the highest of them allows. A process that finds all of its own permits held
// also looks at the first one above its limit. If that is held too, it returns ErrLimit and gets nothing. It does not look while
// one of its own permits is free. A process with the highest limit notices nothing. To change the limit, deploy the new one to all processes. As long as both
// are in use, those with the lower limit may get ErrLimit, and the higher limit applies.
//
// # Cost
//
// If k permits are held, an Acquire that need not wait makes 3+k requests at most: one to enter the queue, k+1 for permits, one to leave the queue. Permits that are held in the same
// process cost none. An Acquire that waits at the front makes up to 2n+3: it tries n permits, looks at one more, and then waits for n at once, which are n waiting requests at the store.
// It cancels those that it does not need. If two permits become free at the same moment, it may get both, and gives one back. Those behind cost one waiting request for each process. Where waiters poll
// (Guarantees.Wake), the first in line polls for n keys. In Postgres each of its waits has its own connection, so MaxLeases should be
// above 2n.
type Semaphore struct {
	locks *lock.Locker
	key   string
	n     int
}

// NewSemaphore returns the semaphore of a key, with n permits. It makes no request. n must be positive, or the error is lock.ErrInvalid.
func NewSemaphore(locks *lock.Locker, key string, n int) (*Semaphore, error) {
	if n < 1 || key == "" {
		return nil, fmt.Errorf("%w: semaphore %q with %d permits", lock.ErrInvalid, key, n)
	}
	return &Semaphore{locks, key, n}, nil
}

// Acquire waits for a permit. Release of the lease returns it. Its errors are those of Locker.Acquire, and ErrLimit, which matches lock.ErrHeld too.
//
// A permit that is acquired under the context of another is a second permit. If all of them are held under ctx, the error is
// lock.ErrDeadlock. Reentrant makes no sense here. WithWait limits the wait in the queue, and then the wait at its front. WithMinHold also
// applies to a permit that Acquire gives back because it got two.
func (s *Semaphore) Acquire(ctx context.Context, opts ...lock.AcquireOption) (*lock.Lease, error) {
	// The place in the queue lasts as long as it is needed. If it is lost, another one waits at the front too, which does no harm.
	place, err := s.locks.Acquire(ctx, s.key+"/queue", append(opts[:len(opts):len(opts)], lock.WithMinHold(1), lock.WithMaxHold(math.MaxInt64))...)
	if err != nil {
		return nil, err
	}
	defer place.Release(ctx)
	lease, others, err := s.try(ctx, opts)
	if err == nil || !errors.Is(err, lock.ErrHeld) || errors.Is(err, ErrLimit) {
		return lease, err
	}
	return s.wait(ctx, others, opts)
}

// TryAcquire is like Acquire but does not wait. If all permits are held, the error is lock.ErrHeld, with the *lock.HeldError of the last.
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...lock.AcquireOption) (*lock.Lease, error) {
	lease, _, err := s.try(ctx, opts)
	return lease, err
}

// try takes the lowest permit that is free. If none is, the error is ErrHeld, and others are the permits that are not held under ctx.
func (s *Semaphore) try(ctx context.Context, opts []lock.AcquireOption) (_ *lock.Lease, others []string, err error) {
	var busy error
	for i := range s.n {
		var lease *lock.Lease
		lease, err = s.locks.TryAcquire(ctx, s.permit(i), opts...)
		switch {
		case err == nil:
			return lease, nil, nil
		case errors.Is(err, lock.ErrHeld):
			others, busy = append(others, s.permit(i)), err
		case !errors.Is(err, lock.ErrDeadlock):
			return nil, nil, err
		}
	}
	if busy == nil {
		return nil, nil, err // all are held under ctx
	}
	above, err := s.locks.Inspect(ctx, s.permit(s.n))
	switch {
	case err != nil:
		return nil, nil, err
	case above.Held():
		return nil, nil, fmt.Errorf("%w: %w: all permits below %d are held, and so is %s", lock.ErrHeld, ErrLimit, s.n, s.permit(s.n))
	}
	return nil, others, busy
}

// wait waits for all permits at once, keeps the first that is granted, and gives up the others. An error of any ends it: nobody would
// notice that this permit becomes free.
func (s *Semaphore) wait(ctx context.Context, permits []string, opts []lock.AcquireOption) (*lock.Lease, error) {
	type result struct {
		i     int
		lease *lock.Lease
		err   error
	}
	ended := make(chan result)
	cancels := make([]context.CancelFunc, len(permits))
	for i, permit := range permits {
		under, cancel := context.WithCancel(ctx) // of its own, because the lease's context ends with it
		cancels[i] = cancel
		go func() {
			lease, err := s.locks.Acquire(under, permit, opts...)
			ended <- result{i, lease, err}
		}()
	}
	first := <-ended
	for i, cancel := range cancels {
		if i != first.i || first.err != nil {
			cancel()
		}
	}
	for range len(permits) - 1 {
		if r := <-ended; r.err == nil {
			_ = r.lease.Release(ctx) // if the outcome is unknown, the TTL ends it
		}
	}
	if first.err == nil {
		context.AfterFunc(first.lease.Context(), cancels[first.i])
	}
	return first.lease, first.err
}

func (s *Semaphore) permit(i int) string { return s.key + "/permit/" + strconv.Itoa(i) }
