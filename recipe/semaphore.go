package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/anylock/lock"
)

// ErrLimit means that all permits of this Semaphore are held, and that another process, whose limit is higher, holds one beyond them.
var ErrLimit = errors.New("another process has a higher limit")

// A Semaphore lets a limited number of holders work at the same time, in all processes together. Each permit is a lease of its own. So a
// holder that dies returns its permit by the TTL, and one that is cut off learns that it has lost it. Create a Semaphore with NewSemaphore.
//
// # Keys
//
// The semaphore "mail" with a limit of 2 has the permits "mail/permit/0" and "mail/permit/1", which are keys of the Locker. Whoever is first
// in line holds "mail/queue". locks.List(ctx, "mail/permit/") returns who holds permits, if the store can list. Tokens rise for each permit
// and not for the semaphore as a whole, so compare only tokens of leases with the same Key.
//
// # Order
//
// The first in line waits for all permits at once. The others wait for the key of the queue, in the order of Locker.Acquire: first come,
// first served if Guarantees.FIFO says so. TryAcquire does not queue. If the first in line dies, the next takes its place after the TTL.
//
// # Different limits
//
// Give all processes the same limit. A process with the limit n uses the permits 0 to n-1, and takes the lowest that is free. So if
// limits differ, as many permits can be held as the highest limit allows, and not more. A process that finds all its own permits held
// looks at permit n too. If that is held, it does not wait: the error is ErrLimit. It does not look as long as one of its own permits is
// free, and the process with the highest limit never notices.
//
// To change the limit, deploy the new one to all processes. While both are in use, the higher one applies, and processes with the lower
// one may get ErrLimit. They can try again later.
//
// # Cost
//
// If k permits are held elsewhere, an Acquire that need not wait makes 3+k requests: one to enter the queue, k+1 for permits, and one to
// leave the queue. An Acquire that has to wait makes up to 3n+2: it tries n permits, looks at one more, waits for n at once, and gives up
// n-1 of these waits. If several permits become free at the same moment, it may get more than one, and returns the others. Behind it,
// each process has one waiting request for the queue. If waiters poll (Guarantees.Wake), the first in line polls for n keys. With Postgres
// each of its waits takes a connection.
type Semaphore struct {
	locks *lock.Locker
	key   string
	n     int
}

// NewSemaphore returns the semaphore of a key, with n permits. It makes no request. The error is lock.ErrInvalid if key is empty or n is not
// positive.
func NewSemaphore(locks *lock.Locker, key string, n int) (*Semaphore, error) {
	if n < 1 || key == "" {
		return nil, fmt.Errorf("%w: semaphore %q with %d permits", lock.ErrInvalid, key, n)
	}
	return &Semaphore{locks, key, n}, nil
}

// Acquire waits for a permit. To return the permit, release the lease. The errors are those of Locker.Acquire, and ErrLimit, which comes
// with lock.ErrHeld.
//
// Under the context of a permit, Acquire returns another permit. If all of them are held under ctx, the error is lock.ErrDeadlock. Do not
// use Reentrant. WithWait limits the wait in the queue, and then the wait at its front. WithMinHold applies to a surplus permit too.
func (s *Semaphore) Acquire(ctx context.Context, opts ...lock.AcquireOption) (*lock.Lease, error) {
	// Minimum and maximum hold are for the permit; a nanosecond is none. If the place is lost, two wait at the front, which does no harm.
	placeOpts := append(slices.Clip(opts), lock.WithMinHold(0), lock.WithMaxHold(0))
	place, err := s.locks.Acquire(ctx, s.key+"/queue", placeOpts...)
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
