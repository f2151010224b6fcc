// Package kubernetes lets the leader election of client-go and controller-runtime use a store of package lock instead
// of the API server: a [Lock] is a resourcelock.Interface.
//
// The lease in the store is the lock. Its TTL is the elector's LeaseDuration, and the elector renews it every
// RetryPeriod. When the elector or its process stops, the lease expires. Only the store decides when: a candidate never
// concludes from its own clock that the leader is dead.
//
// # Two leaders
//
// An elector checks its lock every RetryPeriod, and gives up only after failures for RenewDeadline. A lease may end
// sooner: because its process was paused, a renewal was slow, or an operator broke the lease. So pass [New] the
// function that cancels the context of LeaderElector.Run. A Lock calls this function when the lease ends, at the
// lease's local deadline at the latest, which is before the store grants the lease to anybody else. The context of
// OnStartedLeading ends as well, and then OnStoppedLeading is called.
//
// No clock helps a process that is paused in the middle of a write. The systems that leaders write to should reject old
// fencing tokens: see [Lock.Lease] and its Token.
package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/anylock/lock"
	"github.com/anylock/lock/backend/kit"
)

// patience limits the requests that the elector does not limit itself: those of candidates.
const patience = 10 * time.Second

// A Lock is the lock of one LeaderElector. Its methods are safe for concurrent use.
type Lock struct {
	locks    *lock.Locker
	key      string
	identity string
	lost     func(error)

	mu      sync.Mutex
	lease   *lock.Lease // the leader's lease; after a loss it remains until the elector has stopped leading
	record  resourcelock.LeaderElectionRecord
	failing bool // the last renewal failed
	observe int  // the number of calls of Get
}

var _ resourcelock.Interface = (*Lock)(nil)

// New returns the lock for one LeaderElector. All candidates use the same key of the same store. Each needs an
// identity, as for any other lock of client-go. Two candidates with the same identity do no harm.
//
// lost is called with the cause, in its own goroutine, when a lease ends while the elector leads by it. lost should
// cancel the context of LeaderElector.Run, or of the Manager's Start: a [context.CancelCauseFunc] fits. If lost is nil,
// the elector notices the loss at its next renewal. It stops leading RenewDeadline after that, when somebody else may
// already lead.
//
// The error matches lock.ErrInvalid.
func New(locks *lock.Locker, key, identity string, lost func(error)) (*Lock, error) {
	switch {
	case locks == nil:
		return nil, fmt.Errorf("kubernetes: %w: no Locker", lock.ErrInvalid)
	case key == "" || identity == "":
		return nil, fmt.Errorf("kubernetes: %w: empty key or identity", lock.ErrInvalid)
	case lost == nil:
		lost = func(error) {}
	}
	return &Lock{locks: locks, key: key, identity: identity, lost: lost}, nil
}

// Lease returns the lease that this process leads by, for its Token and Context. It is nil if this process does not
// lead. Do not renew or release it: the elector does. In OnStartedLeading, call Lease first and then check ctx.Err:
// if ctx has not ended, the lease belongs to this term, not to a later one.
func (l *Lock) Lease() *lock.Lease {
	lease := l.held()
	if lease == nil || lease.Err() != nil {
		return nil
	}
	return lease
}

// held returns the lease, which may have been lost.
func (l *Lock) held() *lock.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease
}

func (l *Lock) set(lease *lock.Lease, record resourcelock.LeaderElectionRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease, l.record, l.failing = lease, record, false
}

// Get implements resourcelock.Interface. If this process holds the lease, Get returns the record of the last Create or
// Update. If the lease was lost, it returns an error until the elector has stopped leading. If somebody else holds the
// lease, the holder's identity is the owner, as in Ops.Inspect, and the raw bytes differ in each call. If nobody holds
// the lease, the error is NotFound.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	lease, record := l.lease, l.record
	l.observe++
	observe := l.observe
	l.mu.Unlock()
	if lease != nil {
		if err := lease.Err(); err != nil {
			return nil, nil, err
		}
		raw, err := json.Marshal(record)
		return &record, raw, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	h, err := l.locks.Ops().Inspect(ctx, l.key)
	switch {
	case err != nil:
		return nil, nil, err
	case !h.Held():
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "lock"}, l.key)
	}
	return &resourcelock.LeaderElectionRecord{
		HolderIdentity:       kit.Printable(h.Owner), // the elector logs it
		LeaseDurationSeconds: max(1, int((h.TTL+time.Second-1)/time.Second)),
		RenewTime:            metav1.Now(),
	}, fmt.Appendf(nil, "%s %d", h.Owner, observe), nil
}

// Create implements resourcelock.Interface. It acquires the lease without waiting. The error matches lock.ErrHeld if
// somebody else holds the lease. It matches lock.ErrLost if the elector's lease was lost and the elector has not
// stopped leading yet, and lock.ErrInvalid if lock.Shared is a default of the Locker.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if lease := l.held(); lease != nil {
		return l.renew(ctx, lease, record)
	}
	ttl, err := ttlOf(record)
	if err != nil {
		return err
	}
	asking, answered := context.WithTimeout(ctx, min(ttl, patience))
	defer answered()
	lease, err := l.locks.TryAcquire(asking, l.key, lock.WithTTL(ttl), lock.WithoutRenewal(), lock.Exclusive())
	if err != nil {
		return err
	}
	if asking.Err() != nil {
		_ = lease.Release(ctx) // otherwise the lease expires
		return asking.Err()
	}
	l.set(lease, record)
	leading := lease.Context(context.WithoutCancel(ctx)) // the elector ends ctx once it leads
	context.AfterFunc(leading, func() {
		if l.held() == lease { // neither released nor abandoned to its TTL
			l.lost(context.Cause(leading))
		}
	})
	return nil
}

// Update implements resourcelock.Interface. It renews the lease, or releases it if the record has no holder, as with
// ReleaseOnCancel. It does not acquire a lease, because the elector calls Create for that. The error matches
// lock.ErrLost if this process holds no lease.
//
// A lease whose last renewal failed is not released; it expires. The elector may have stopped because of that failure,
// and then it cancels the leader's context only after the release.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	lease, failing := l.lease, l.failing
	l.mu.Unlock()
	if lease == nil {
		// A Conflict would make the elector retry at once.
		return fmt.Errorf("kubernetes: %q is not held: %w", l.key, lock.ErrLost)
	}
	if record.HolderIdentity != "" {
		return l.renew(ctx, lease, record)
	}
	l.set(nil, record)
	if failing {
		return fmt.Errorf("kubernetes: %q stays taken for its TTL, because its renewal has failed", l.key)
	}
	return lease.Release(ctx)
}

// renew uses at most a third of the lease's remaining time, so that there is time for another attempt.
func (l *Lock) renew(caller context.Context, lease *lock.Lease, record resourcelock.LeaderElectionRecord) error {
	ttl, err := ttlOf(record)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(caller, time.Until(lease.Deadline())/3)
	defer cancel()
	if err := lease.Renew(ctx, ttl); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		// After a cancellation the elector was stopped from outside: it did not give up because of this renewal.
		l.failing = l.failing || !errors.Is(caller.Err(), context.Canceled)
		return err
	}
	l.set(lease, record)
	return nil
}

// ttlOf returns the elector's LeaseDuration, which the record contains in whole seconds.
func ttlOf(record resourcelock.LeaderElectionRecord) (time.Duration, error) {
	if record.LeaseDurationSeconds < 1 {
		return 0, fmt.Errorf("kubernetes: %w: a LeaseDuration of less than a second", lock.ErrInvalid)
	}
	return time.Duration(record.LeaseDurationSeconds) * time.Second, nil
}

// becameLeader is the event that an elector records when it begins to lead. Its only other event reports that it has
// stopped.
const becameLeader = "became leader"

// RecordEvent implements resourcelock.Interface. It records nothing: the elector logs its events, and there is no
// object of the API server to attach them to. If the elector stops leading without releasing its lease, the lease
// expires.
func (l *Lock) RecordEvent(event string) {
	if event != becameLeader {
		l.set(nil, resourcelock.LeaderElectionRecord{})
	}
}

// Identity implements resourcelock.Interface.
func (l *Lock) Identity() string { return l.identity }

// Describe implements resourcelock.Interface.
func (l *Lock) Describe() string { return "anylock/" + l.key }
