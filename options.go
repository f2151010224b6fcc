package lock

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/anylock/lock/backend"
)

// DefaultTTL is the TTL of a lease if WithTTL is not used.
const DefaultTTL = 30 * time.Second

// DefaultHandoff is how often in a row a lease is handed on inside the process if WithHandoff is not used.
const DefaultHandoff = 16

// An Option configures a Locker. A nil Option has no effect.
type Option interface{ locker(*settings) }

// An AcquireOption configures one acquisition. Given to Open, New or Config.Open, it becomes the default for all
// acquisitions.
type AcquireOption interface {
	Option
	acquire(*settings)
}

type lockerOption func(*settings)

func (o lockerOption) locker(s *settings) { o(s) }

type acquireOption func(*settings)

func (o acquireOption) locker(s *settings)  { o(s) }
func (o acquireOption) acquire(s *settings) { o(s) }

// WithTTL sets how long the key stays taken if its holder dies. While the holder lives, renewal keeps the lease. A
// store may round the TTL up: see Guarantees.
func WithTTL(ttl time.Duration) AcquireOption {
	return acquireOption(func(s *settings) { s.ttl = ttl })
}

// WithoutRenewal lets the lease end after its TTL, unless Lease.Renew extends it.
func WithoutRenewal() AcquireOption {
	return acquireOption(func(s *settings) { s.noRenewal = true })
}

// WithMaxHold ends the lease after d, so that a holder that hangs does not keep the key forever. Renewals request no
// more than the rest of d, in whole units of the store's Granularity. They end when the rest is less than the store's
// MinTTL: the lease may then end sooner, by up to a third of its TTL. The first grant may be longer than d, if d is
// below the MinTTL or between two units. 0 means no maximum and overrides a default.
func WithMaxHold(d time.Duration) AcquireOption {
	return acquireOption(func(s *settings) { s.maxHold = d })
}

// WithMinHold keeps the key taken for at least d after the grant, even if it is released sooner. Otherwise a short job
// that two hosts start by their clocks could run twice: it may end on one host before the clock of the other reaches
// the same time. Release requests that the store keep the key for the rest of d and about 1 % more, because clocks
// differ in speed, and tries for up to a second. If the store does not answer, the key stays taken for the rest of the
// lease.
//
// A d longer than Guarantees.MaxTTL is ErrInvalid. If the process ends before d has passed, some stores free the key
// then: those that end leases with their client's connection (Postgres), or with its session after about
// Guarantees.MaxSilence (ZooKeeper). 0 means no minimum and overrides a default.
func WithMinHold(d time.Duration) AcquireOption {
	return acquireOption(func(s *settings) { s.minHold = d })
}

// WithWait limits how long Acquire waits for the key. After that, Acquire returns ErrHeld if the key was busy: another
// goroutine of this process held it, or the store reported it. If the store has not answered by then, Acquire returns
// ErrUnavailable, with the store's last error if there was one: the key may be free. The limit does not affect the
// lease. With 0, Acquire does not wait, like TryAcquire.
func WithWait(d time.Duration) AcquireOption {
	return acquireOption(func(s *settings) { s.wait = d })
}

// Reentrant allows a key that is held under the context of the call to be acquired again. Each acquisition needs a
// Release, and the last one releases the lease. The TTL, renewal, minimum and maximum hold of the first acquisition
// apply. Without Reentrant, a second acquisition is ErrDeadlock.
//
// Two goroutines that share the lease's Context count as one holder: both get the key and do not exclude each other.
// Use a context for each that is not the lease's, or a mutex between them.
func Reentrant() AcquireOption {
	return acquireOption(func(s *settings) { s.reentrant = true })
}

// Shared requests a shared lease, for a reader. Shared leases on one key do not exclude each other; a shared and an
// exclusive lease do. Every shared lease has an owner, TTL, deadline and loss of its own. A request waits for the
// requests ahead of it that it conflicts with, and for no others: readers that follow each other enter together, and no
// reader overtakes a waiting writer. See docs/guarantees.md for the order of waiters and tokens.
//
// A lease keeps its mode. An exclusive request under the context of a shared lease of the key is ErrDeadlock, and so is
// the reverse, even with Reentrant. If Guarantees.Shared is false, Shared is ErrUnsupported before any request to the
// store.
func Shared() AcquireOption {
	return acquireOption(func(s *settings) { s.shared = true })
}

// Exclusive refuses shared leases: if Shared is an option of the same call or a default of the Locker, the error is
// ErrInvalid, before any request to the store. Use it in code that passes on the options of its callers, and in which
// two holders of a key would do harm.
func Exclusive() AcquireOption {
	return acquireOption(func(s *settings) { s.exclusive = true })
}

// WithHandoff sets how often in a row, 255 at most, a lease passes at its release to the next goroutine of this Locker
// that waits for the key, usually without a request to the store. After n such hand-offs, or a second after the store
// granted the lease, the store decides who is next, so that other processes get their turn. 0 disables hand-off.
func WithHandoff(n int) Option {
	return lockerOption(func(s *settings) { s.handoff = n })
}

// WithPrefix puts prefix before every key, so that applications can share a store. It counts towards the length limit
// of keys.
func WithPrefix(prefix string) Option {
	return lockerOption(func(s *settings) { s.prefix = prefix })
}

// WithOwnerLabel adds label to the random part of every owner, in place of the host and process, so that others find it
// in Holder.Label: an address where the leader can be reached, for example. Inspect, List, HeldError and the command
// show it. label is 1 to 222 bytes of printable characters without blanks and quotes. It need not be unique.
func WithOwnerLabel(label string) Option {
	return lockerOption(func(s *settings) {
		s.label, s.err = label, cmp.Or(s.err, backend.ValidateLabel(label))
	})
}

// WithTokenBase adds n to the store's fencing number of every lease. After a switch to another store, tokens then
// continue above those of the old store: see docs/switching.md. If a sum is not below 2^55, the lease is released and
// the error is ErrUnsupported. Lease.Token is 256 times the sum, so n adds 256*n to it. A store without tokens still
// has none.
func WithTokenBase(n uint64) Option {
	return lockerOption(func(s *settings) { s.tokenBase = n })
}

// Require makes opening fail with ErrUnsupported if the store does not promise all of n. The error names the missing
// promises. If Require is given several times, all of them apply.
func Require(n Need) Option {
	return lockerOption(func(s *settings) { s.require = append(s.require, n) })
}

// WithLogger logs failed renewals, lost leases, releases whose outcome is unknown, and other warnings. By default
// nothing is logged. Keys and owners are logged, URLs are not. Open also sends the lines of go-redis to logger, at
// level info. go-redis has one logger for the whole process, so its lines go to the logger of the Locker that was
// opened last.
func WithLogger(logger *slog.Logger) Option {
	return lockerOption(func(s *settings) { s.logger = cmp.Or(logger, noLogger) })
}

var noLogger = slog.New(slog.DiscardHandler)

// newSettings returns the settings of a Locker with opts, even if they are not valid.
func newSettings(opts []Option) settings {
	s := settings{ttl: DefaultTTL, wait: forever, handoff: DefaultHandoff, logger: noLogger}
	for _, o := range opts {
		if o != nil {
			o.locker(&s)
		}
	}
	if s.owner != "" {
		s.err = fmt.Errorf("%w: WithOwner is for one acquisition, not for a Locker", ErrInvalid)
	}
	return s
}

// terms returns the settings of an acquisition with opts, even if they are not valid.
func (l *Locker) terms(opts []AcquireOption) (*settings, error) {
	if len(opts) == 0 {
		return &l.defaults, nil
	}
	s := l.defaults
	for _, o := range opts {
		if o != nil {
			o.acquire(&s)
		}
	}
	return &s, s.validate(l.guarantees)
}

// validate returns the error of settings that are not valid for a store with these guarantees: ErrUnsupported if they
// request a shared lease and the store has none, otherwise ErrInvalid.
func (s *settings) validate(g Guarantees) error {
	longest := cmp.Or(g.MaxTTL, backend.MaxTTL)
	switch {
	case s.err != nil:
		return s.err
	case len(s.prefix) >= backend.MaxKeyLen:
		return fmt.Errorf("%w: prefix of %d bytes leaves no room for a key", ErrInvalid, len(s.prefix))
	case s.handoff < 0 || s.handoff > maxHandoff:
		return fmt.Errorf("%w: hand-off %d is not between 0 and %d", ErrInvalid, s.handoff, maxHandoff)
	case s.tokenBase >= backend.TokenLimit:
		return fmt.Errorf("%w: token base %d is not below 2^55", ErrInvalid, s.tokenBase)
	case s.maxHold < 0:
		return fmt.Errorf("%w: max hold %v is negative", ErrInvalid, s.maxHold)
	case s.minHold < 0 || s.minHold > longest: // Release requests the rest of the minimum hold as a TTL
		return fmt.Errorf("%w: min hold %v is not between 0 and %v, the longest TTL", ErrInvalid, s.minHold, longest)
	case s.maxHold > 0 && s.minHold > s.maxHold:
		return fmt.Errorf("%w: min hold %v is longer than max hold %v", ErrInvalid, s.minHold, s.maxHold)
	case s.wait < 0:
		return fmt.Errorf("%w: wait %v is negative", ErrInvalid, s.wait)
	case s.shared && s.exclusive:
		return fmt.Errorf("%w: a shared lease is requested where leases must be exclusive", ErrInvalid)
	case s.owner != "" && s.randomOwner:
		return fmt.Errorf("%w: WithOwner is for one acquisition, and several may follow here", ErrInvalid)
	case s.shared && !g.Shared:
		return fmt.Errorf("%w: the store has no shared leases", ErrUnsupported)
	}
	return cmp.Or(backend.ValidateTTL(s.ttl), g.ValidateTTL(s.leaseTTL()))
}

// leaseTTL returns the TTL to request at the start of a tenure.
func (s *settings) leaseTTL() time.Duration {
	return min(s.ttl, cmp.Or(s.maxHold, forever))
}

// newOwner returns the owner for one request.
func (s *settings) newOwner() string {
	switch {
	case s.owner != "":
		return s.owner
	case s.label != "":
		return backend.NewLabelledOwner(s.label)
	}
	return backend.NewOwner()
}

// WithTracer makes the Locker call t. Without a Tracer, tracing costs nothing.
func WithTracer(t Tracer) Option {
	return lockerOption(func(s *settings) { s.tracer = t })
}
