package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/anylock/lock"
)

// ErrLimit means that all permits of this Semaphore are held, and that another process, whose limit is higher, holds
// one beyond them.
var ErrLimit = errors.New("another process has a higher limit")

// A Semaphore lets a limited number of holders work at the same time, in all processes together. Each permit is a
// separate lease: the permit of a dead holder is free after the TTL, and a disconnected holder is notified of the loss.
// Create a Semaphore with NewSemaphore.
//
// # Keys
//
// The semaphore "mail" with a limit of 2 has the permits "mail/permit/0" and "mail/permit/1", which are keys of the
// Locker. The first waiter holds "mail/queue". locks.Ops().List(ctx, "mail/permit/") returns the holders of permits, if
// the store can list. Tokens rise per permit, not for the whole semaphore, so compare only tokens of leases with the
// same Key.
//
// # Order
//
// The first waiter waits for all permits at once. The others wait for the key of the queue, in the order of
// Locker.Acquire: first come, first served if Guarantees.FIFO is true. TryAcquire does not queue. If the first waiter
// dies, the next one replaces it after the TTL.
//
// # Different limits
//
// Give all processes the same limit. A process with the limit n uses the permits 0 to n-1, and acquires the lowest that
// is free. So if limits differ, at most as many permits are held as the highest limit allows. A process that finds all
// these permits held also inspects permit n. If permit n is held, the process does not wait: the error is ErrLimit. A
// process that finds a free permit does not detect the difference, nor does the process with the highest limit.
//
// To change the limit, deploy the new one to all processes. While both are in use, the higher one applies, and
// processes with the lower one may get ErrLimit. They can try again later.
//
// # Cost
//
// If k permits are held elsewhere, an Acquire that need not wait makes 3+k requests: one to acquire the key of the
// queue, k+1 for permits, and one to release the key of the queue. An Acquire that has to wait makes up to 3n+2: it
// tries n permits, inspects one more, waits for n at once, and cancels n-1 of these waits. If several permits become
// free at the same moment, it may be granted more than one, and releases the others. Meanwhile each other process has
// one waiting request for the queue. If waiters poll (Guarantees.Wake), the first waiter polls n keys. With Postgres
// each of its waits uses a connection. Multiply by the requests of the store (backend/driver.Driver.RoundTrips).
type Semaphore struct {
	locks *lock.Locker
	key   string
	n     int
}

// NewSemaphore returns the semaphore of a key, with n permits. It makes no request. The error is lock.ErrInvalid if key
// is empty or n is not positive.
func NewSemaphore(locks *lock.Locker, key string, n int) (*Semaphore, error) {
	if n < 1 || key == "" {
		return nil, fmt.Errorf("%w: semaphore %q with %d permits", lock.ErrInvalid, key, n)
	}
	return &Semaphore{locks, key, n}, nil
}

// Acquire waits for a permit. To return the permit, release the lease. The errors are those of Locker.Acquire, and
// ErrLimit, joined with lock.ErrHeld.
//
// Under the context of a permit, Acquire returns another permit. If all of them are held under ctx, the error is
// lock.ErrDeadlock. Do not use Reentrant. WithWait limits the wait in the queue, and then the wait at its front.
// WithMinHold applies to a surplus permit too.
func (s *Semaphore) Acquire(ctx context.Context, opts ...lock.AcquireOption) (*lock.Lease, error) {
	opts = append(slices.Clip(opts), lock.Exclusive(), lock.RandomOwner())
	// Minimum and maximum hold apply to the permit, not to the place in the queue. If the place is lost, two callers
	// wait at the front, which is harmless.
	placeOpts := append(slices.Clip(opts), lock.WithMinHold(0), lock.WithMaxHold(0))
	place, err := s.locks.Acquire(ctx, s.queue(), placeOpts...)
	if err != nil {
		return nil, err
	}
	defer place.Release(ctx)
	return s.acquirePermit(ctx, 0, opts)
}

// TryAcquire is like Acquire but does not wait. If all permits are held, the error is lock.ErrHeld, with the
// *lock.HeldError of the last.
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...lock.AcquireOption) (*lock.Lease, error) {
	return s.tryPermit(ctx, 0, append(slices.Clip(opts), lock.Exclusive(), lock.RandomOwner()))
}

// acquirePermit waits for a permit at the front of the queue.
func (s *Semaphore) acquirePermit(ctx context.Context, first int, opts []lock.AcquireOption) (*lock.Lease, error) {
	lease, others, err := s.try(ctx, first, opts)
	if err == nil || !errors.Is(err, lock.ErrHeld) || errors.Is(err, ErrLimit) {
		return lease, err
	}
	return s.wait(ctx, others, opts)
}

func (s *Semaphore) tryPermit(ctx context.Context, first int, opts []lock.AcquireOption) (*lock.Lease, error) {
	lease, _, err := s.try(ctx, first, opts)
	return lease, err
}

// try acquires the first free permit, beginning with the given one. If none is free, the error is ErrHeld, and others
// are the permits that are not held under ctx.
func (s *Semaphore) try(
	ctx context.Context, first int, opts []lock.AcquireOption,
) (_ *lock.Lease, others []string, err error) {
	var busy error
	for i := range s.n {
		permit := s.permit((first + i) % s.n)
		var lease *lock.Lease
		lease, err = s.locks.TryAcquire(ctx, permit, opts...)
		switch {
		case err == nil:
			return lease, nil, nil
		case errors.Is(err, lock.ErrHeld):
			others, busy = append(others, permit), err
		case !errors.Is(err, lock.ErrDeadlock):
			return nil, nil, err
		}
	}
	if busy == nil {
		return nil, nil, err // all are held under ctx
	}
	above, err := s.locks.Ops().Inspect(ctx, s.permit(s.n))
	switch {
	case errors.Is(err, lock.ErrInvalid): // the name of this permit would be too long for a key
	case err != nil:
		return nil, nil, err
	case above.Held():
		return nil, nil, fmt.Errorf("%w: %w: all permits below %d are held, and so is %q",
			lock.ErrHeld, ErrLimit, s.n, s.permit(s.n))
	}
	return nil, others, busy
}

// wait waits for all permits at once, keeps the first one granted, and cancels the other waits. An error of any wait
// ends them all, because the wait for that permit has ended.
func (s *Semaphore) wait(ctx context.Context, permits []string, opts []lock.AcquireOption) (*lock.Lease, error) {
	type result struct {
		lease *lock.Lease
		err   error
	}
	ended := make(chan result)
	waiting, cancel := context.WithCancel(ctx)
	for _, permit := range permits {
		go func() {
			lease, err := s.locks.Acquire(waiting, permit, opts...)
			ended <- result{lease, err}
		}()
	}
	first := <-ended
	cancel()
	for range len(permits) - 1 {
		if r := <-ended; r.err == nil {
			_ = r.lease.Release(ctx) // if the outcome is unknown, the lease ends with its TTL
		}
	}
	return first.lease, first.err
}

func (s *Semaphore) queue() string { return s.key + "/queue" }

func (s *Semaphore) permit(i int) string { return s.key + "/permit/" + strconv.Itoa(i) }
