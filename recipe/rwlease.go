package recipe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/anylock/lock"
)

// An RWLease is the lease of a reader or of a writer of an RW. It is lost as soon as one of its keys is lost. Its
// methods are safe for concurrent use.
type RWLease struct {
	rw      *RW
	place   *lock.Lease // on the queue's key, for a writer; nil for a reader, which does not keep it
	permits []*lock.Lease
	token   uint64
}

// Token returns the fencing token: that of the queue's key, which everybody passes. The token of a writer is above that
// of everybody who held the RW before, and below that of everybody after, within the scope that Guarantees.Fencing
// names. The tokens of readers that overlap have no meaningful order. Package fence checks the tokens of both, with
// CheckShared and DoShared for readers. The tokens of the permits have no such order.
func (r *RWLease) Token() uint64 { return r.token }

// Shared reports whether the lease is a reader's.
func (r *RWLease) Shared() bool { return r.place == nil }

// set returns the leases on all keys, with that on the queue last.
func (r *RWLease) set() *Set {
	s := &Set{leases: r.permits[:len(r.permits):len(r.permits)]}
	if r.place != nil {
		s.leases = append(s.leases, r.place)
	}
	return s
}

// Context returns a child of parent that also ends when the lease is lost (the cause matches lock.ErrLost and names the
// key), or when it is released. Under it, every method of the RW that acquires returns lock.ErrDeadlock.
func (r *RWLease) Context(parent context.Context) context.Context {
	return r.set().Context(context.WithValue(parent, r.rw.contextKey(), r))
}

// Deadline returns the time until which the lease lives unless it is renewed: the earliest deadline of its keys.
func (r *RWLease) Deadline() time.Time { return r.set().Deadline() }

// Err returns nil while the lease lives, by the clock at the moment of the call. Otherwise it returns the error of the
// first key that is not held: lock.ErrLost or lock.ErrReleased.
func (r *RWLease) Err() error { return r.set().Err() }

// Release releases all keys. It tries all of them and works even if ctx has ended. The error is lock.ErrLost if a key
// was lost before, joined with any other errors: a key named by another error is free by its TTL at the latest.
func (r *RWLease) Release(ctx context.Context) error { return errors.Join(r.release(ctx)...) }

// release is Release. It returns an error for each key, or nil.
func (r *RWLease) release(ctx context.Context) []error {
	errs := make([]error, len(r.permits)+1)
	var released sync.WaitGroup
	for i, permit := range r.permits {
		released.Go(func() { errs[i] = permit.Release(ctx) })
	}
	released.Wait()
	if r.place != nil { // last, so that whoever is next finds free permits
		errs[len(r.permits)] = r.place.Release(ctx)
	}
	return errs
}

// acquireAtOnce acquires n keys concurrently. It returns the granted leases and the first error. An error ends the
// other waits, and so does the loss of a lease that was granted.
func acquireAtOnce(
	ctx context.Context, n int, acquire func(ctx context.Context, i int) (*lock.Lease, error),
) ([]*lock.Lease, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu      sync.Mutex
		granted []*lock.Lease
		first   error
		done    sync.WaitGroup
	)
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = err
		}
		cancel()
	}
	for i := range n {
		done.Go(func() {
			lease, err := acquire(ctx, i)
			if err != nil {
				fail(err)
				return
			}
			held := lease.Context(ctx)
			context.AfterFunc(held, func() {
				if err := lease.Err(); errors.Is(err, lock.ErrLost) {
					fail(err)
				}
			})
			mu.Lock()
			defer mu.Unlock()
			granted = append(granted, lease)
		})
	}
	done.Wait()
	mu.Lock()
	defer mu.Unlock()
	return granted, first
}
