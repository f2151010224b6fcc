package recipe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/anylock/lock"
)

// An RW lets either readers or one writer work at a time, in all processes together, on a store without shared leases.
// Where Guarantees.Shared is true, use lock.Shared instead: it costs less and has no limit on readers. Create an RW
// with NewRW.
//
// # Keys
//
// The RW "report" for 3 readers has the permits "report/permit/0" to "report/permit/2" and the queue "report/queue",
// which are keys of the Locker. A reader holds one permit. A writer holds the queue and all permits. Everybody passes
// the queue first, so a request waits only for those ahead of it in the queue, and two writers never wait for each
// other. A reader leaves the queue as soon as it has a permit. While all permits are held by readers, the next reader
// waits at the front of the queue.
//
// All processes must use the same n: a writer with a lower n does not exclude the readers of a higher permit. To change
// n, stop all holders first.
//
// # Order
//
// The queue is in the order of Locker.Acquire: first come, first served if Guarantees.FIFO is true. Where waiters poll,
// any waiter may be next. If the first waiter dies, its place is free after the TTL.
//
// # Cost
//
// A writer makes n+1 requests to acquire and n+1 to release, of which n are concurrent, and renews n+1 leases. A reader
// makes 3 requests to acquire and 1 to release, and one more for each busy permit that it tries: it begins at a random
// one. A reader that finds all permits held makes up to 3n+2, as a Semaphore does. Readers pass the queue one by one.
// Multiply by the requests of the store (backend/driver.Driver.RoundTrips).
type RW struct{ permits Semaphore }

// NewRW returns the RW of a key, for at most n readers at a time. It makes no request. The error is lock.ErrInvalid if
// key is empty or n is not positive.
func NewRW(locks *lock.Locker, key string, n int) (*RW, error) {
	if n < 1 || key == "" {
		return nil, fmt.Errorf("%w: readers and writers %q with %d permits", lock.ErrInvalid, key, n)
	}
	return &RW{Semaphore{locks, key, n}}, nil
}

// Acquire waits until nobody else holds l, and returns the lease of a writer. Its errors are those of AcquireAll: after
// an error this call holds nothing, and lock.ErrLost means that a key was lost during the wait for another one.
// Under the Context of any lease of l, a reader's too, the error is lock.ErrDeadlock.
//
// Options apply to each key. WithWait limits the wait in the queue, and then the wait for the readers. The time of
// WithMaxHold includes the wait for the readers. WithMinHold also applies to the keys of a failed call.
func (l *RW) Acquire(ctx context.Context, opts ...lock.AcquireOption) (*RWLease, error) {
	return l.exclusive(ctx, l.permits.locks.Acquire, opts)
}

// TryAcquire is like Acquire but does not wait. The error is lock.ErrHeld if anybody else holds l, waits for it, or is
// acquiring it at this moment.
func (l *RW) TryAcquire(ctx context.Context, opts ...lock.AcquireOption) (*RWLease, error) {
	return l.exclusive(ctx, l.permits.locks.TryAcquire, opts)
}

// AcquireShared waits until no writer holds l or waits ahead of this call, and until a permit is free. It returns the
// lease of a reader. The errors are those of Acquire, and ErrLimit. WithMinHold and WithMaxHold apply to the permit.
// WithWait limits the wait in the queue, and then the wait at its front.
func (l *RW) AcquireShared(ctx context.Context, opts ...lock.AcquireOption) (*RWLease, error) {
	return l.shared(ctx, l.permits.locks.Acquire, l.permits.acquirePermit, opts)
}

// TryAcquireShared is like AcquireShared but does not wait. The error is lock.ErrHeld if a writer holds l or waits, if
// all permits are held, or if another reader is passing the queue at this moment.
func (l *RW) TryAcquireShared(ctx context.Context, opts ...lock.AcquireOption) (*RWLease, error) {
	return l.shared(ctx, l.permits.locks.TryAcquire, l.permits.tryPermit, opts)
}

// acquireKey is Locker.Acquire or Locker.TryAcquire.
type acquireKey func(ctx context.Context, key string, opts ...lock.AcquireOption) (*lock.Lease, error)

// exclusive acquires the queue and then all permits. The writer keeps the queue, so that others wait for that key
// alone.
func (l *RW) exclusive(ctx context.Context, acquire acquireKey, opts []lock.AcquireOption) (*RWLease, error) {
	if err := l.errNested(ctx); err != nil {
		return nil, err
	}
	opts = append(slices.Clip(opts), lock.Exclusive(), lock.RandomOwner())
	place, err := acquire(ctx, l.permits.queue(), opts...)
	if err != nil {
		return nil, err
	}
	under, cancel := context.WithCancel(ctx)
	defer cancel()
	under = place.Context(under)
	permits, err := acquireAtOnce(under, l.permits.n, func(ctx context.Context, i int) (*lock.Lease, error) {
		return acquire(ctx, l.permits.permit(i), opts...)
	})
	w := &RWLease{rw: l, place: place, permits: permits, token: place.Token()}
	if err = lossOr(err, ctx, under); err == nil {
		err = w.Err()
	}
	if err == nil {
		return w, nil
	}
	for _, released := range w.release(ctx) {
		err = withRelease(err, released)
	}
	return nil, err
}

// shared acquires the queue, a permit by get, and releases the queue.
//
// The lease must still hold the queue when the permit has been granted. Otherwise a writer may have acquired and
// released l in between, and the token of that writer would be above this reader's.
func (l *RW) shared(ctx context.Context, acquire acquireKey,
	get func(context.Context, int, []lock.AcquireOption) (*lock.Lease, error), opts []lock.AcquireOption,
) (*RWLease, error) {
	if err := l.errNested(ctx); err != nil {
		return nil, err
	}
	opts = append(slices.Clip(opts), lock.Exclusive(), lock.RandomOwner())
	placeOpts := append(slices.Clip(opts), lock.WithMinHold(0), lock.WithMaxHold(0))
	place, err := acquire(ctx, l.permits.queue(), placeOpts...)
	if err != nil {
		return nil, err
	}
	defer place.Release(ctx) // if the outcome is unknown, the lease ends with its TTL
	under := place.Context(ctx)
	permit, err := get(under, rand.IntN(l.permits.n), opts)
	if err != nil {
		return nil, lossOr(err, ctx, under)
	}
	if err := place.Err(); err != nil {
		return nil, errors.Join(err, permit.Release(ctx))
	}
	return &RWLease{rw: l, permits: []*lock.Lease{permit}, token: place.Token()}, nil
}

// errNested returns lock.ErrDeadlock if ctx is the context of a live lease of l. A reader that acquired again would
// wait behind a writer that waits for this reader.
func (l *RW) errNested(ctx context.Context) error {
	if held, ok := ctx.Value(l.contextKey()).(*RWLease); ok && held.Err() == nil {
		return fmt.Errorf("recipe: %q: %w", l.permits.key, lock.ErrDeadlock)
	}
	return nil
}

// contextKey is the key under which the contexts of leases of l carry their lease.
func (l *RW) contextKey() any { return rwContextKey{l.permits.locks, l.permits.key} }

type rwContextKey struct {
	locks *lock.Locker
	key   string
}

// lossOr returns the cause of the end of under, the context of a lease, if that made a request fail with err. That is
// so if under has ended and its parent ctx has not. Otherwise lossOr returns err.
func lossOr(err error, ctx, under context.Context) error {
	if err != nil && ctx.Err() == nil && under.Err() != nil {
		return context.Cause(under)
	}
	return err
}
