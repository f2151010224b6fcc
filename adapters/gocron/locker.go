// Package gocronlock lets several processes share the jobs of github.com/go-co-op/gocron/v2, with any store of package
// lock. A [Locker] distributes the jobs among the processes and runs each fire once. An [Elector] lets one process run
// all jobs. docs/adapters/gocron.md helps to choose.
package gocronlock

import (
	"context"
	"slices"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/anylock/lock"
)

// A Locker is a gocron.Locker. Of the schedulers that share a store, the first to acquire a job's key runs the job, and
// the others skip this fire. A Locker is safe for concurrent use, even by several schedulers of one process.
type Locker struct {
	locks *lock.Locker
	opts  []lock.AcquireOption
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker whose keys are the names of the jobs, with the prefix of locks, see lock.WithPrefix. Two
// jobs must not have the same name.
//
// A key is free once its job has ended and minHold has passed since the fire. minHold must be longer than the
// difference between the schedulers' clocks and timers, and shorter than the interval by at least this difference. The
// store rounds minHold up like a TTL. 0 means none. opts apply to each fire. Shared and WithOwner are refused
// with lock.ErrInvalid. The caller closes locks after the schedulers have shut down.
func NewLocker(locks *lock.Locker, minHold time.Duration, opts ...lock.AcquireOption) *Locker {
	if minHold != 0 {
		opts = append([]lock.AcquireOption{lock.WithMinHold(minHold)}, opts...)
	}
	return &Locker{locks, append(slices.Clip(opts), lock.Exclusive(), lock.RandomOwner())}
}

// Lock acquires the key of a job if it is free, without waiting. The lease renews itself while the job runs.
// lock.ErrHeld means that another scheduler runs this fire, or has just run it. After any other error this scheduler
// skips the fire without knowing whether another scheduler runs it. gocron.AfterLockError receives the error.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lease, err := l.locks.TryAcquire(ctx, key, l.opts...)
	if err != nil {
		return nil, err
	}
	return held{lease}, nil
}

type held struct{ *lock.Lease }

// Unlock releases the key once the minimum hold has passed. lock.ErrLost means that the lease ended before the job.
func (h held) Unlock(ctx context.Context) error { return h.Release(ctx) }
