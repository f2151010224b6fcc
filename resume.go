package lock

import (
	"context"
	"fmt"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// WithOwner sets the name under which the store knows the holder, instead of a random name. Use it if another process,
// or this process after a restart, is to Resume the lease. An owner names one acquisition: never use it for two calls,
// not even after an error, because the clean-up of a failed call ends whatever its owner holds. A lease with such an
// owner is not handed on inside the process. Other goroutines of this process wait for it at the store, because another
// process may release it. WithOwner is an option of one acquisition: as a default of a Locker it is ErrInvalid.
func WithOwner(owner string) AcquireOption {
	return acquireOption(func(s *settings) {
		s.owner = owner
		if n := len(owner); n == 0 || n > backend.MaxOwnerLen {
			s.err = fmt.Errorf("%w: owner of %d bytes is not between 1 and %d", ErrInvalid, n, backend.MaxOwnerLen)
		}
	})
}

// RandomOwner refuses WithOwner: if that is an option of the same call, the error is ErrInvalid, before any request to
// the store. Use it in code that passes on the options of its callers to several acquisitions of a key.
func RandomOwner() AcquireOption {
	return acquireOption(func(s *settings) { s.randomOwner = true })
}

// Resume returns the lease that owner still has on key at the store, and makes it last for the TTL of the options from
// now. Use it for a lease that another process hands over, or that this process held before a restart. The lease must
// have been acquired with WithOwner, or by a Locker with WithHandoff(0): otherwise its token may be lower than the last
// holder's, by up to 255.
//
// ErrLost means that owner does not hold the key, or not in this mode: resume a shared lease with Shared.
// ErrUnsupported means that the store cannot return a lease to another process. After any other error the lease is
// unchanged or has been extended. A resumed lease renews itself until Release, like a lease from Acquire. ctx bounds
// only the request. If two processes use the lease at the same time, neither excludes the other, and a Release by
// either ends it for both. A process that lost the lease while one of its renewals was under way may also end it for
// the other process, by a late Release.
func (l *Locker) Resume(ctx context.Context, key, owner string, opts ...AcquireOption) (*Lease, error) {
	return l.traced(ctx, "resume", key, opts, false,
		func(ctx context.Context, full string, terms *settings, _ bool) (*Lease, error) {
			return l.resume(ctx, full, owner, terms)
		})
}

func (l *Locker) resume(
	ctx context.Context, full, owner string, terms *settings,
) (resumed *Lease, err error) {
	resumer, ok := l.backend.(backend.Resumer)
	if !ok {
		return nil, fmt.Errorf("%w: the store cannot return a lease to another process", ErrUnsupported)
	}
	g, err := l.enterPrivate(full, terms.shared)
	if err != nil {
		return nil, err
	}
	defer func() {
		if resumed == nil { // also if the store panics
			l.leave(g, nil)
		}
	}()
	var t *tenure
	ttl := terms.leaseTTL()
	lease, err := resumer.Resume(ctx, backend.Request{Key: full, Owner: owner, TTL: ttl, Shared: terms.shared})
	if err == nil {
		t, err = l.newTenure(g, lease, owner, ttl)
	}
	if err == nil {
		if lease := t.begin(terms); lease != nil {
			return lease, nil
		}
		t.stop()
		err = l.lossReason()
	}
	return nil, kit.NotOurs(ctx, err)
}

// Resumable reports whether Resume can return a lease to a process other than the one that acquired it.
func (l *Locker) Resumable() bool {
	_, ok := l.backend.(backend.Resumer)
	return ok && l.guarantees.Reach > ReachProcess
}
