// Package certmagiclock replaces the locks of a certmagic.Storage by those of package lock, in any store. Certificates
// remain in the certmagic.Storage.
package certmagiclock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/anylock/lock"
)

// A Storage is a certmagic.Storage whose locks are leases. It also implements certmagic.TryLocker and
// certmagic.LockLeaseRenewer. It is safe for concurrent use. In this process, one caller at a time is between Lock and
// Unlock of a name, even if its lease has been lost.
type Storage struct {
	certmagic.Storage // everything except the locks

	locks *lock.Locker
	opts  []lock.AcquireOption

	mu   sync.Mutex
	held map[string]*turn // by name
}

// A turn lasts from Lock to Unlock.
type turn struct {
	lease *lock.Lease // may end before the turn; guarded by Storage.mu, because RenewLockLease replaces the lease
	over  chan struct{}
}

var (
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// New returns a Storage that keeps everything in data, except that the locks of data are not used. Keys are certmagic's
// names with the prefix of locks, see lock.WithPrefix. Instances that share data must share the store of locks and the
// prefix. opts apply to each lease. Do not use lock.WithoutRenewal: leases must renew themselves. Shared and WithOwner
// are refused with lock.ErrInvalid. The caller closes locks.
func New(data certmagic.Storage, locks *lock.Locker, opts ...lock.AcquireOption) *Storage {
	opts = append(slices.Clip(opts), lock.Exclusive(), lock.RandomOwner())
	return &Storage{Storage: data, locks: locks, opts: opts, held: make(map[string]*turn)}
}

// String returns the data store's own description. certmagic logs its Storage; without String it would print every
// field of the data store, including passwords.
func (s *Storage) String() string {
	if data, ok := s.Storage.(fmt.Stringer); ok {
		return data.String()
	}
	return fmt.Sprintf("%T", s.Storage)
}

// Lock waits for name. If ctx has ended, Lock acquires a free name, like certmagic.FileStorage, but does not wait.
// Errors are those of lock.Locker.Acquire. If a holder in this process has lost its lease but still works, Lock waits
// for that holder too, and only ctx limits this wait.
func (s *Storage) Lock(ctx context.Context, name string) error {
	acquire, askCtx := s.locks.Acquire, ctx
	if ctx.Err() != nil {
		acquire, askCtx = s.locks.TryAcquire, context.WithoutCancel(ctx)
	}
	for { // callers in this process also wait in the key's queue, so that lock.WithWait limits them too
		lease, err := acquire(askCtx, name, s.opts...)
		if err != nil {
			return err
		}
		lost := s.begin(name, lease)
		if lost == nil {
			return nil
		}
		_ = lease.Release(ctx) // the holder that lost name may acquire it again
		select {
		case <-lost.over:
		case <-ctx.Done():
			return fmt.Errorf("%w: a holder of %q still works, but its lease is lost: %w", lock.ErrHeld, name, ctx.Err())
		}
	}
}

// TryLock acquires name if it is free. false without an error means that another holder has name, or a holder in this
// process has lost it but still works.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	lease, err := s.locks.TryAcquire(ctx, name, s.opts...)
	if errors.Is(err, lock.ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if s.begin(name, lease) != nil {
		_ = lease.Release(ctx) // the holder that lost name may acquire it again
		return false, nil
	}
	return true, nil
}

// begin starts a turn with lease and returns nil. If a holder has lost name but still works, begin returns that
// holder's turn instead.
func (s *Storage) begin(name string, lease *lock.Lease) (lost *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.held[name]; t != nil {
		return t
	}
	s.held[name] = &turn{lease: lease, over: make(chan struct{})}
	return nil
}

// Unlock releases name. lock.ErrLost, which certmagic logs, means that the lease had already ended, so that others may
// have held name meanwhile. lock.ErrInvalid means that name is not locked here.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	t := s.held[name]
	delete(s.held, name)
	s.mu.Unlock()
	if t == nil {
		return notLocked(name)
	}
	close(t.over)
	return t.lease.Release(ctx)
}

// RenewLockLease returns nil while name is locked. It ignores the duration and does not change the lease, because
// leases renew themselves, and a longer lease would outlive its process. After a loss it acquires name again if it is
// free: certmagic then checks whether there is a certificate already. lock.ErrHeld means that another holder has name.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	t := s.held[name]
	if t == nil {
		s.mu.Unlock()
		return notLocked(name)
	}
	lost := t.lease
	s.mu.Unlock()
	if lost.Err() == nil {
		return nil
	}
	_ = lost.Release(ctx) // the store may still have the lost lease
	lease, err := s.locks.TryAcquire(ctx, name, s.opts...)
	if err != nil {
		return fmt.Errorf("the lease was lost: %w", err)
	}
	s.mu.Lock()
	unlocked := s.held[name] != t
	if !unlocked {
		t.lease = lease
	}
	s.mu.Unlock()
	if unlocked { // meanwhile
		return errors.Join(notLocked(name), lease.Release(ctx))
	}
	return nil
}

func notLocked(name string) error { return fmt.Errorf("%w: %q is not locked", lock.ErrInvalid, name) }
