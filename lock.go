// Package lock is one lock API for many stores. A lock is an exclusive lease on a key, or a shared one ([Shared]). It
// expires if its holder dies, renews itself while it is held, and notifies its holder when it is lost. Only its owner
// can release it. It has a fencing token, a number that increases with each holder of the key.
//
// Import the package of your store for its side effect, as with database/sql, and open the store by URL:
//
//	import (
//		"github.com/anylock/lock"
//		_ "github.com/anylock/lock/redis"
//	)
//
//	locks, err := lock.Open(ctx, "redis://localhost:6379")
//	err = locks.Do(ctx, "invoice/42", func(ctx context.Context, l *lock.Lease) error {
//		return charge(ctx, l.Token()) // ctx ends when the lock is lost
//	})
//
// # What a lease guarantees
//
// Until its deadline, a lease is valid unless it is lost: nobody else holds the key, apart from other readers if the
// lease is shared. That is as reliable as the store: see [Guarantees]. When the lease is lost, [Lease.Context] ends and
// [Lease.Lost] closes, at the deadline at the latest, whatever the network does.
//
// No lease is safe if its holder pauses for too long: between the holder's last check and its write, the lease may
// expire and somebody else may get the key. To close this gap, let the resource refuse a [Lease.Token] lower than one
// that it has seen: see package fence.
//
// # Release reports a loss
//
// Release returns [ErrLost] if the lease had ended before, so that somebody else may have worked at the same time. A
// plain "defer lease.Release(ctx)" drops that error. [Locker.Do] returns it, and so does a function with a named
// result:
//
//	lease, err := locks.Acquire(ctx, key)
//	if err != nil {
//		return err
//	}
//	defer func() { err = errors.Join(err, lease.Release(ctx)) }()
//	return work(lease.Context(ctx))
//
// # Concurrency
//
// Everything is safe for concurrent use. Goroutines of one Locker that acquire the same key queue inside the process,
// in order of arrival, and only the first sends a request to the store. Requests for [Shared] leases do not queue in
// the process: each goes to the store.
package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
)

// URLEnv is the environment variable that Open reads if its URL is empty.
const URLEnv = "ANYLOCK_URL"

// Open opens the store that rawURL names, with the package registered for its scheme. If rawURL is empty, Open uses the
// environment variable ANYLOCK_URL. The URL's parameter lock_prefix is WithPrefix, and lock_token_base is
// WithTokenBase. Errors never show a password.
//
// Open contacts the store once, so that a wrong address is noticed at start-up.
func Open(ctx context.Context, rawURL string, opts ...Option) (*Locker, error) {
	if rawURL = cmp.Or(rawURL, os.Getenv(URLEnv)); rawURL == "" {
		return nil, &Error{Op: "open", Err: fmt.Errorf("%w: no url given and %s is not set", ErrInvalid, URLEnv)}
	}
	d, unknown := driver.Lookup(rawURL)
	rest, prefix, base, invalid := driver.TakeLockParams(rawURL)
	s := newSettings(append([]Option{WithPrefix(prefix), WithTokenBase(base)}, opts...))
	// Check the options before any request to the store. newLocker checks them again, with the store's guarantees.
	err := cmp.Or(unknown, invalid, s.validate(Guarantees{Shared: true}))
	var b backend.Backend
	if err == nil {
		b, err = d.OpenURL(kit.WithLogger(ctx, s.logger), rest)
	}
	if err != nil {
		return nil, &Error{Op: "open", Backend: d.Name, Err: driver.CleanError(rawURL, err)}
	}
	l, err := newLocker(b, d.Name, s)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return l, nil
}

// New returns a Locker on a backend that the application has created. The Locker's Close closes the backend.
func New(b backend.Backend, opts ...Option) (*Locker, error) {
	if b == nil {
		return nil, &Error{Op: "open", Err: fmt.Errorf("%w: no backend", ErrInvalid)}
	}
	// The type's package is the store's name: *redis.Backend.
	name, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", b), "*"), ".")
	return newLocker(b, name, newSettings(opts))
}

func newLocker(b backend.Backend, name string, s settings) (*Locker, error) {
	stopping, stop := context.WithCancel(context.Background())
	l := &Locker{
		backend: b, name: name, guarantees: b.Guarantees(), defaults: s,
		gates: make(map[string]*gate), drained: make(chan struct{}), stopping: stopping.Done(), stop: stop,
		onStop: func(f func()) func() bool { return context.AfterFunc(stopping, f) },
	}
	if err := cmp.Or(unmet(l.guarantees, s.require), s.validate(l.guarantees)); err != nil {
		return nil, l.error("open", "", err)
	}
	l.renewals = newRenewer(l)
	return l, nil
}

// Guarantees returns what the store promises.
func (l *Locker) Guarantees() Guarantees { return l.guarantees }
