package file

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// requestTimeout limits a release or a renewal. Either takes some 20 µs, or a little more than breakAfter if a process
// was stopped while it had the bucket locked.
const requestTimeout = 5 * time.Second

// A Backend is one client of a directory of locks. It implements backend.Backend.
type Backend struct {
	store  *store
	leases *kit.Leases
	inbox  *inbox
}

var _ backend.Backend = (*Backend)(nil)

func newBackend(s *store) *Backend {
	b := &Backend{store: s, inbox: &inbox{store: s, waiting: make(map[uint64]chan struct{})}}
	b.leases = kit.NewLeases(requests{b}, requestTimeout)
	return b
}

// Guarantees implements backend.Backend.
func (b *Backend) Guarantees() backend.Guarantees { return guarantees }

// Inspect implements backend.Backend.
func (b *Backend) Inspect(ctx context.Context, key string) (h backend.Holder, err error) {
	err = b.leases.Call(ctx, backend.ValidateKey(key), func(ctx context.Context) error {
		return b.read(ctx, key, func(r *record, now int64) { h = r.holder(now) })
	})
	return h, err
}

// read calls f with a key's record.
func (b *Backend) read(ctx context.Context, key string, f func(r *record, now int64)) error {
	return b.update(ctx, key, false, func(r *record, now int64, _ notifier) (bool, error) {
		f(r, now)
		return false, nil
	})
}

// update runs store.update, and then notifies the waiters that change has passed to its notifier. It notifies those of
// every run, because a run that is repeated may have written the record.
func (b *Backend) update(
	ctx context.Context, key string, create bool, change func(r *record, now int64, n notifier) (write bool, err error),
) error {
	out := outbox{inbox: b.inbox}
	err := b.store.update(ctx, key, create, func(r *record, now int64) (bool, error) { return change(r, now, &out) })
	point("unlocked")
	out.send() // even after an error, because the record may have been written
	return err
}

func (r *record) holder(now int64) backend.Holder {
	if len(r.leases) == 0 {
		return backend.Holder{}
	}
	l := r.latest()
	return backend.Holder{
		Owner: l.owner, Token: l.token, TTL: time.Duration(l.expires - now), Waiters: len(r.queue), Shared: r.readers(),
	}
}

// Close implements backend.Backend.
func (b *Backend) Close() error {
	if b.leases.Close() {
		b.inbox.close()
		b.store.spare.close()
	}
	return nil
}

// requests implements kit.Requests.
type requests struct{ *Backend }

// RenewLease implements kit.Requests.
func (b requests) RenewLease(ctx context.Context, l *kit.Life, ttl time.Duration) (time.Duration, error) {
	_, err := b.renew(ctx, backend.Request{Key: l.Key(), Owner: l.Owner(), Shared: l.Shared()}, ttl)
	return ttl, err
}

// renew sets the expiry of held.Owner's lease to ttl from now, and returns the lease's token. It returns ErrLost if the
// owner has no lease in held's mode.
func (b *Backend) renew(ctx context.Context, held backend.Request, ttl time.Duration) (token uint64, err error) {
	err = b.update(ctx, held.Key, false, func(r *record, now int64, n notifier) (bool, error) {
		var ok bool
		if token, ok = r.renew(held.Owner, held.Shared, now+int64(ttl), n); !ok {
			return false, backend.ErrLost
		}
		return true, nil
	})
	return token, err
}

// ReleaseLease implements kit.Requests.
func (b requests) ReleaseLease(ctx context.Context, l *kit.Life) error {
	return b.release(ctx, l.Key(), l.Owner())
}

// release removes the lease of owner, or its place in the queue, and notifies the next waiter.
func (b *Backend) release(ctx context.Context, key, owner string) error {
	removed := false // stays true if the update is repeated
	err := b.update(ctx, key, false, func(r *record, now int64, n notifier) (bool, error) {
		had, changed := r.release(owner, now, n)
		removed = removed || had
		return changed, nil
	})
	if err == nil && !removed {
		err = backend.ErrLost
	}
	return err
}
