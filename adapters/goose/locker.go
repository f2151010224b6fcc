// Package gooselock lets several processes migrate one database by github.com/pressly/goose/v3 at once: one migrates, the others wait
// and find nothing left to do. The lock is in any store of package lock, so that it works for databases that have none of their own.
package gooselock

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	gooselocker "github.com/pressly/goose/v3/lock"

	"github.com/anylock/lock"
)

// A Locker is for goose.WithLocker. It is safe for concurrent use, also by several Providers. If a lease is lost and its migrations go on,
// another Provider of this Locker may begin beside them, and whichever unlocks first is told of the loss.
type Locker struct {
	locks *lock.Locker
	key   string
	opts  []lock.AcquireOption

	mu   sync.Mutex
	held []*lock.Lease // the earliest first; more than one only after a loss that its holder has not noticed
}

var _ gooselocker.Locker = (*Locker)(nil)

// New returns a Locker on key, which stands for the database: use one key for each. opts apply to the lease, which renews itself while
// migrations run; lock.WithWait limits how long a process waits for the one that migrates. Closing locks is left to the caller.
func New(locks *lock.Locker, key string, opts ...lock.AcquireOption) *Locker {
	return &Locker{locks: locks, key: key, opts: opts}
}

// Lock waits for the key. It does not use the database. Errors are those of lock.Locker.Acquire.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	lease, err := l.locks.Acquire(ctx, l.key, l.opts...)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, lease)
	return nil
}

// Unlock releases the key. lock.ErrLost, which goose returns to its caller, means that the lease ended before the migrations did, so
// that another process may have migrated at the same time.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error {
	l.mu.Lock()
	if len(l.held) == 0 {
		l.mu.Unlock()
		return fmt.Errorf("%w: unlock of %q, which is not locked", lock.ErrInvalid, l.key)
	}
	lease := l.held[0]
	l.held = l.held[1:]
	l.mu.Unlock()
	return lease.Release(ctx)
}
