// Package certmagiclock gives a certmagic.Storage the locks of package lock: certificates stay where they are, and who may obtain one is
// decided in any of its stores.
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

// A Storage is a certmagic.Storage whose locks are leases. It also implements certmagic.TryLocker and certmagic.LockLeaseRenewer. It is
// safe for concurrent use.
type Storage struct {
	certmagic.Storage // everything but the locks

	locks *lock.Locker
	opts  []lock.AcquireOption

	mu   sync.Mutex
	held map[string][]*lock.Lease // by name, the earliest first; more than one only after a loss that its holder has not noticed
}

var (
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// New returns a Storage that keeps everything in data, whose own locks are not used. Keys are certmagic's names, behind the prefix of
// locks, see lock.WithPrefix. Instances that share data must share the store of locks and the prefix. opts apply to each lease; leases
// must renew themselves, so lock.WithoutRenewal is not for here. Closing locks is left to the caller.
func New(data certmagic.Storage, locks *lock.Locker, opts ...lock.AcquireOption) *Storage {
	return &Storage{Storage: data, locks: locks, opts: opts, held: make(map[string][]*lock.Lease)}
}

// String is what the data store says of itself. certmagic logs its Storage, and without this all that is in the data store would be
// printed, passwords included.
func (s *Storage) String() string {
	if data, ok := s.Storage.(fmt.Stringer); ok {
		return data.String()
	}
	return fmt.Sprintf("%T", s.Storage)
}

// Lock waits for name. If ctx has ended it takes a name that is free, like certmagic.FileStorage, and does not wait for one that is
// not. Errors are those of lock.Locker.Acquire.
func (s *Storage) Lock(ctx context.Context, name string) error {
	acquire := s.locks.Acquire
	if ctx.Err() != nil {
		ctx, acquire = context.WithoutCancel(ctx), s.locks.TryAcquire
	}
	lease, err := acquire(ctx, name, s.opts...)
	if err != nil {
		return err
	}
	s.add(name, lease)
	return nil
}

// TryLock takes name if it is free. false without an error means that another holds it.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	lease, err := s.locks.TryAcquire(ctx, name, s.opts...)
	if errors.Is(err, lock.ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.add(name, lease)
	return true, nil
}

func (s *Storage) add(name string, lease *lock.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[name] = append(s.held[name], lease)
}

// Unlock releases name. lock.ErrLost, which certmagic logs, means that the lease had ended before, so that others may have held name
// meanwhile. lock.ErrInvalid means that name is not locked here.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	list := s.held[name]
	if len(list) > 1 {
		s.held[name] = list[1:]
	} else {
		delete(s.held, name)
	}
	s.mu.Unlock()
	if len(list) == 0 {
		return notLocked(name)
	}
	return list[0].Release(ctx)
}

// RenewLockLease returns nil while name is locked. It leaves the lease as it is, whatever the duration, because leases renew themselves,
// and one that was made longer would outlive its process. After a loss it takes name again if it is free: certmagic then looks whether
// there is a certificate already. lock.ErrHeld means that another has taken name.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	list := s.held[name]
	s.mu.Unlock()
	if len(list) == 0 {
		return notLocked(name)
	}
	lost := list[0]
	if lost.Err() == nil {
		return nil
	}
	_ = lost.Release(ctx) // the store may have it still
	lease, err := s.locks.TryAcquire(ctx, name, s.opts...)
	if err != nil {
		return fmt.Errorf("the lease was lost: %w", err)
	}
	s.mu.Lock()
	i := slices.Index(s.held[name], lost)
	if i >= 0 {
		s.held[name][i] = lease
	}
	s.mu.Unlock()
	if i < 0 { // unlocked meanwhile
		return errors.Join(notLocked(name), lease.Release(ctx))
	}
	return nil
}

func notLocked(name string) error { return fmt.Errorf("%w: %q is not locked", lock.ErrInvalid, name) }
