package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/anylock/lock"
)

// ErrNotLeader means that this Elector does not hold its key. The error of IsLeader also matches the last failure, if
// any.
var ErrNotLeader = errors.New("not the leader")

// campaignPause is the pause after a failed attempt.
const campaignPause = time.Second

// An Elector is a gocron.Elector: it leads while it holds its key. It is safe for concurrent use.
type Elector struct {
	stop context.CancelFunc
	done chan struct{} // closed when the campaign has ended

	mu    sync.Mutex
	lease *lock.Lease // the latest lease, which may have ended
	err   error       // of the last attempt, or of the release at the end
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an Elector that waits for key in the background, and again after each loss, until Close. opts
// apply to its leases. If the store fails, it retries once a second.
func NewElector(locks *lock.Locker, key string, opts ...lock.AcquireOption) *Elector {
	ctx, stop := context.WithCancel(context.Background())
	e := &Elector{stop: stop, done: make(chan struct{})}
	go e.campaign(ctx, locks, key, append(slices.Clip(opts), lock.Exclusive(), lock.RandomOwner()))
	return e
}

// campaign acquires the key again and again until ctx ends or locks is closed.
func (e *Elector) campaign(ctx context.Context, locks *lock.Locker, key string, opts []lock.AcquireOption) {
	defer close(e.done)
	for {
		lease, err := locks.Acquire(ctx, key, opts...)
		if ctx.Err() != nil && err != nil {
			return
		}
		e.set(lease, err)
		if errors.Is(err, lock.ErrClosed) {
			return
		}
		if err != nil {
			select {
			case <-time.After(campaignPause):
			case <-ctx.Done():
			}
			continue
		}
		select {
		case <-lease.Lost():
			_ = lease.Release(ctx) // the store may still have the lost lease
		case <-ctx.Done():
			e.set(lease, lease.Release(ctx))
			return
		}
	}
}

func (e *Elector) set(lease *lock.Lease, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lease, e.err = lease, err
}

// IsLeader returns nil if this Elector holds the key now. Otherwise it returns an error that matches ErrNotLeader. It
// makes no request.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	lease, err := e.lease, e.err
	e.mu.Unlock()
	if lease != nil {
		if err = lease.Err(); err == nil {
			return nil
		}
	}
	if err == nil {
		return ErrNotLeader
	}
	return fmt.Errorf("%w: %w", ErrNotLeader, err)
}

// Close ends the campaign and releases the key, so that the next Elector leads at once. Shut the scheduler down first,
// because a job that still runs would overlap with the next leader's jobs. Close returns the error of the release.
// After lock.ErrLost, another process may already have been the leader. A second Close returns the same error.
func (e *Elector) Close() error {
	e.stop()
	<-e.done
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lease == nil {
		return nil // it did not lead, so the error of its last attempt does not matter
	}
	return e.err
}
