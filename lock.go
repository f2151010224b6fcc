// Package lock is one lock API for many stores. A lock is an exclusive lease. It expires if its holder dies, renews itself
// while it is held, tells its holder when it is lost, can be released only by its owner, and carries a fencing token.
//
// Import the store that you use for its side effect, as with database/sql, and open it by URL:
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
// No lease is safe if its holder pauses for too long: between the holder's last check and its write, the lease may expire and
// somebody else may get the key. [Lease.Context] ends and [Lease.Lost] closes when the lease ends, by its local deadline at the
// latest, whatever the network does. To close the remaining gap, let the resource refuse a [Lease.Token] lower than one it has seen.
//
// # Concurrency
//
// Everything is safe for concurrent use. Goroutines of one Locker that want the same key queue inside the process, first come
// first served, and only the first of them asks the store.
package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/driver"
	"github.com/anylock/lock/backend/kit"
)

// URLEnv is the environment variable that Open reads if its URL is empty.
const URLEnv = "ANYLOCK_URL"

// A Locker hands out leases on the keys of one store. Create it with Open or New: the methods of a zero Locker return ErrInvalid.
type Locker struct {
	backend    backend.Backend
	name       string // of the store, for errors and logs
	guarantees Guarantees
	defaults   settings
	renewals   *renewer
	traces     traces

	mu      sync.Mutex
	gates   map[string]*gate
	resumed int   // leases of Resume that are not over
	idle    *gate // the one that was left last, with nobody inside: its key is often wanted again at once

	// Closed under mu.
	stopping chan struct{} // by Shutdown, or Close: nothing new is granted
	drained  chan struct{} // when, after that, nobody holds a key or asks for one
	done     chan struct{} // by Close

	background sync.WaitGroup // hand-backs under way for callers who have gone
}

// Open opens the store that rawURL names, with the package registered for its scheme. If rawURL is empty, Open uses the
// environment variable ANYLOCK_URL. The URL's parameter lock_prefix is WithPrefix, and lock_token_base is WithTokenBase.
// Errors never show a password.
//
// Open contacts the store once, so that a wrong address shows at start-up.
func Open(ctx context.Context, rawURL string, opts ...Option) (*Locker, error) {
	if rawURL == "" {
		rawURL = os.Getenv(URLEnv)
	}
	if rawURL == "" {
		return nil, &Error{Op: "open", Err: fmt.Errorf("%w: no url given and %s is not set", ErrInvalid, URLEnv)}
	}
	d, err := driver.Lookup(rawURL)
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	fail := func(err error) (*Locker, error) {
		return nil, &Error{Op: "open", Backend: d.Name, Err: driver.CleanError(rawURL, err)}
	}
	rest, prefix, err := driver.TakePrefix(rawURL)
	if err != nil {
		return fail(err)
	}
	if prefix != "" {
		opts = append([]Option{WithPrefix(prefix)}, opts...)
	}
	rest, base, err := driver.TakeTokenBase(rest)
	if err != nil {
		return fail(err)
	}
	if base > 0 {
		opts = append([]Option{WithTokenBase(base)}, opts...)
	}
	// Options are checked before the store is reached.
	s, err := newSettings(opts)
	if err != nil {
		return fail(err)
	}
	b, err := d.OpenURL(kit.WithLogger(ctx, s.logger), rest)
	if err != nil {
		return fail(err)
	}
	l, err := newLocker(b, d.Name, opts)
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
	return newLocker(b, name, opts)
}

func newLocker(b backend.Backend, name string, opts []Option) (*Locker, error) {
	s, err := newSettings(opts)
	if err != nil {
		return nil, &Error{Op: "open", Backend: name, Err: err}
	}
	l := &Locker{
		backend: b, name: name, guarantees: b.Guarantees(), defaults: s, traces: tracesOf(s.tracer),
		gates: make(map[string]*gate), done: make(chan struct{}),
		stopping: make(chan struct{}), drained: make(chan struct{}),
	}
	if err := unmet(l.guarantees, s.require); err != nil {
		return nil, &Error{Op: "open", Backend: name, Err: err}
	}
	if err := l.tooLong(&s); err != nil {
		return nil, &Error{Op: "open", Backend: name, Err: err}
	}
	l.renewals = newRenewer(l)
	return l, nil
}

// tooLong is ErrInvalid if s asks for longer than the store grants.
func (l *Locker) tooLong(s *settings) error {
	most := l.guarantees.MaxTTL
	switch ttl := s.leaseTTL(); {
	case most <= 0:
	case ttl > most:
		return fmt.Errorf("%w: ttl %v is longer than the store grants, %v", ErrInvalid, ttl, most)
	case s.minHold > most: // Release would ask for what is left of it
		return fmt.Errorf("%w: min hold %v is longer than the store grants, %v", ErrInvalid, s.minHold, most)
	}
	return nil
}

// Guarantees returns what the store promises.
func (l *Locker) Guarantees() Guarantees { return l.guarantees }

// Inspect returns who holds key. It is for people and tools: the answer may be out of date by the time it arrives. For a free
// key it is the zero Holder. The token is that of the lease's first holder; after hand-offs the
// holder's own is higher by up to 255.
func (l *Locker) Inspect(ctx context.Context, key string) (Holder, error) {
	full, err := l.fullKey(key)
	if err == nil {
		var h Holder
		if h, err = l.backend.Inspect(ctx, full); err == nil {
			return l.told(h), nil
		}
	}
	return Holder{}, l.error("inspect", l.defaults.prefix+key, err)
}

// unopened is the error of a Locker that neither Open nor New has made.
func (l *Locker) unopened() error {
	if l.backend == nil {
		return fmt.Errorf("%w: the Locker was made without Open or New", ErrInvalid)
	}
	return nil
}

// Close ends waiting Acquires with ErrClosed, stops renewal, and closes the store. Release leases first. A lease that is
// still held ends for its holder at once (its Context ends with ErrClosed as the cause), but its key becomes free only
// when its TTL runs out, because the holder may not have stopped yet. A second Close returns nil.
func (l *Locker) Close() error {
	if err := l.unopened(); err != nil {
		return l.error("close", "", err)
	}
	l.mu.Lock()
	if isClosed(l.done) {
		l.mu.Unlock()
		return nil
	}
	close(l.done)
	l.stopLocked()
	l.mu.Unlock()
	l.renewals.close()
	err := l.backend.Close()
	l.background.Wait()
	if err != nil {
		return &Error{Op: "close", Backend: l.name, Err: err}
	}
	return nil
}

// told is a holder as the store names it, with the token that a holder of this package has.
func (l *Locker) told(h Holder) Holder {
	number, err := driver.AddTokenBase(h.Token, l.defaults.base)
	if err != nil {
		number = 0 // nobody can have such a one
	}
	h.Token = number << handoffBits
	return h
}

func (l *Locker) fullKey(key string) (string, error) {
	if err := l.unopened(); err != nil {
		return "", err
	}
	if key == "" {
		return "", backend.ValidateKey(key) // a prefix does not make it a key
	}
	full := key
	if l.defaults.prefix != "" {
		full = l.defaults.prefix + key
	}
	return full, backend.ValidateKey(full)
}

// effective is how far away the deadline of a lease of ttl is at first.
func (l *Locker) effective(ttl time.Duration) time.Duration {
	ttl = l.guarantees.Round(ttl)
	if most := l.guarantees.MaxSilence; most > 0 {
		return min(ttl, most)
	}
	return ttl
}
