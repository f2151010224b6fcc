// Package gooselock lets several processes use github.com/pressly/goose/v3 on one database at the same time: one
// process migrates, and the others wait and find nothing left to do. The lock can be in any store of package lock, so
// it also works for databases without locks of their own.
package gooselock

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"

	gooselocker "github.com/pressly/goose/v3/lock"

	"github.com/anylock/lock"
)

// A Locker is for goose.WithLocker. It is safe for concurrent use, even by several Providers. One Provider at a time is
// between Lock and Unlock, even if its lease has been lost.
type Locker struct {
	locks *lock.Locker
	key   string
	opts  []lock.AcquireOption

	mu   sync.Mutex
	held *turn // nil while not locked
}

// A turn lasts from Lock to Unlock.
type turn struct {
	lease *lock.Lease // may end before the turn
	over  chan struct{}
}

var _ gooselocker.Locker = (*Locker)(nil)

// New returns a Locker on key, which stands for the database: use one key per database. opts apply to the lease, which
// renews itself while migrations run. lock.WithWait limits how long a process waits for the migrations of others.
// Shared and WithOwner are refused with lock.ErrInvalid. The caller closes locks.
func New(locks *lock.Locker, key string, opts ...lock.AcquireOption) *Locker {
	opts = append(slices.Clip(opts), lock.Exclusive(), lock.RandomOwner())
	return &Locker{locks: locks, key: key, opts: opts}
}

// Lock waits for the key. It does not use the database. Errors are those of lock.Locker.Acquire. If migrations of this
// Locker continue after their lease is lost, Lock waits for them too, and only ctx limits this wait.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	for { // callers in this process also wait in the key's queue, so that lock.WithWait limits them too
		lease, err := l.locks.Acquire(ctx, l.key, l.opts...)
		if err != nil {
			return err
		}
		lost := l.begin(lease)
		if lost == nil {
			return nil
		}
		_ = lease.Release(ctx) // other processes need not wait for the holder that lost the key
		select {
		case <-lost.over:
		case <-ctx.Done():
			return fmt.Errorf("%w: migrations still run, but their lease on %q is lost: %w", lock.ErrHeld, l.key, ctx.Err())
		}
	}
}

// begin starts a turn with lease and returns nil. If a holder has lost the key but still runs, begin returns that
// holder's turn instead.
func (l *Locker) begin(lease *lock.Lease) (lost *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		return l.held
	}
	l.held = &turn{lease: lease, over: make(chan struct{})}
	return nil
}

// Unlock releases the key. lock.ErrLost, which goose returns to its caller, means that the lease ended before the
// migrations did, so that another process may have migrated at the same time.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error {
	l.mu.Lock()
	t := l.held
	l.held = nil
	l.mu.Unlock()
	if t == nil {
		return fmt.Errorf("%w: unlock of %q, which is not locked", lock.ErrInvalid, l.key)
	}
	close(t.over)
	return t.lease.Release(ctx)
}
