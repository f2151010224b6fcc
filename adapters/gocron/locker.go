// Package gocronlock lets several processes share the jobs of github.com/go-co-op/gocron/v2, with any store of package
// lock. A [Locker] spreads the jobs over the processes and runs each fire once. An [Elector] lets one process run all
// jobs. docs/adapters/gocron.md says which to choose.
package gocronlock

import (
	"context"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/anylock/lock"
)

// A Locker is a gocron.Locker: of the schedulers that share a store, the first to acquire a job's key runs the job, and
// the others skip this fire. It is safe for concurrent use, also by several schedulers of one process.
type Locker struct {
	locks *lock.Locker
	opts  []lock.AcquireOption
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker whose keys are the names of the jobs, behind the prefix of locks, see lock.WithPrefix. Two
// jobs must not have the same name.
//
// A key is free once its job has ended and minHold has passed since the fire. Choose minHold longer than the
// schedulers' clocks and timers differ, and shorter than the interval by at least as much. The store rounds it up as it
// does a TTL. 0 means none. opts apply to each fire. The caller closes locks after the schedulers have shut down.
func NewLocker(locks *lock.Locker, minHold time.Duration, opts ...lock.AcquireOption) *Locker {
	if minHold != 0 {
		opts = append([]lock.AcquireOption{lock.WithMinHold(minHold)}, opts...)
	}
	return &Locker{locks, opts}
}

// Lock acquires the key of a job if it is free, without waiting. The lease renews itself while the job runs.
// lock.ErrHeld means that another scheduler runs this fire, or has just run it; after any other error this scheduler
// skips the fire without knowing whether another runs it. gocron.AfterLockError shows the error.
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
