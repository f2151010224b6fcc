package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// held is a lease's Data: what etcd keeps of a lock.
type held struct {
	name string
	own  contender
	mu   sync.Mutex // held over a change of leases and over a release; a renewal does not wait for it
	main *lease     // which the key is bound to; nil when it was given back, or the key is gone
	mod  int64      // the revision at which the key was last written
	// Leases that the key may be bound to by a change that was not answered.
	doubtful []*lease
	// A request that writes the key, or a release, went unanswered: the first may still arrive after the second.
	unsure bool

	guarded guarded
}

// leastLimit is the least time in which a renewal must be answered; a short lease's deadline may come sooner.
const leastLimit = 500 * time.Millisecond

// requests are what Leases asks of the servers.
type requests struct{ b *Backend }

var _ kit.Requests = requests{}

// Guarantees implements [kit.Requests].
func (q requests) Guarantees() backend.Guarantees { return q.b.guarantees }

// RenewLease implements [kit.Requests].
func (q requests) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	// Where a server hangs, a renewal fails while there is time for another one.
	limited, cancel := context.WithTimeout(ctx, max(ttl/3, leastLimit))
	defer cancel()
	granted, errs := q.b.sendBatch(limited, []*kit.Life{l}, []time.Duration{ttl})
	return granted[0], errs[0]
}

// errReleasing is what a renewal tells that finds a release under way: whoever renews, one lease or many, must not wait for a
// release that hangs. Renewals of one lock never meet each other.
var errReleasing = errors.New("the lease is being released")

// keptBy returns the lease whose renewal renews the lock for ttl, nil if it has to change to another one.
func (h *held) keptBy(ttl time.Duration) (*lease, error) {
	if !h.mu.TryLock() {
		return nil, errReleasing
	}
	defer h.mu.Unlock()
	if h.main == nil || h.main.class != ttl || len(h.doubtful) > 0 {
		return nil, nil
	}
	return h.main, nil
}

// ReleaseLease implements [kit.Requests]. It deletes the owner's key and keeps the lease for the next lock. Where a request
// that writes the key has gone unanswered, or an earlier release, it revokes the lease, which ends the key, and what comes late too.
func (q requests) ReleaseLease(ctx context.Context, l *kit.Life) error {
	h := l.Data.(*held)
	q.b.guard.forget(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.main == nil {
		return backend.ErrLost
	}
	if h.unsure || len(h.doubtful) > 0 {
		if err := q.b.revokeHeld(ctx, h); err != nil {
			return err
		}
		return ifEnded(l)
	}
	var deleted bool
	unanswered, err := q.b.repeat(ctx, func(ctx context.Context) (err error) {
		deleted, err = q.b.remove(ctx, h.own)
		return err
	})
	switch {
	case err != nil:
		h.unsure = true
		return err
	case !deleted:
		q.b.dropHeld(h) // not for the pool: another client may have deleted the key, and revoke its lease now
		if unanswered {
			return ifEnded(l)
		}
		return backend.ErrLost
	}
	if !unanswered {
		q.b.names.put(h.name)
	}
	q.b.pool.put(h.main)
	h.main = nil
	return nil
}

// ifEnded tells what became of a key that is gone after requests without an answer: before the deadline one of those has
// done it, later the lease's end may have.
func ifEnded(l *kit.Life) error {
	if time.Now().Before(l.Deadline()) {
		return nil
	}
	return backend.ErrLost
}

// dropHeld lets the leases go of a lock whose key is gone. The caller holds h.mu.
func (b *Backend) dropHeld(h *held) {
	b.pool.drop(append(h.doubtful, h.main)...)
	h.main, h.doubtful = nil, nil
}

// revokeHeld ends every lease that the key may be bound to. The caller holds h.mu.
func (b *Backend) revokeHeld(ctx context.Context, h *held) error {
	h.unsure = true
	for _, l := range append(h.doubtful, h.main) {
		if err := b.pool.revoke(ctx, l); err != nil {
			return err
		}
	}
	h.main, h.doubtful = nil, nil
	return nil
}
