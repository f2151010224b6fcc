package lock

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/anylock/lock/backend"
)

// DefaultTTL is the TTL of a lease unless WithTTL says otherwise.
const DefaultTTL = 30 * time.Second

// DefaultHandoff is how often a live lease is handed on inside the process unless WithHandoff says otherwise.
const DefaultHandoff = 16

const (
	handoffBits = 8
	maxHandoff  = 1<<handoffBits - 1
)

// An Option sets up a Locker.
type Option interface{ locker(*settings) }

// An AcquireOption sets up one acquisition. Given to Open, New or Config.Open it is the default of all of them.
type AcquireOption interface {
	Option
	acquire(*settings)
}

type settings struct {
	ttl       time.Duration
	manual    bool // no automatic renewal
	maxHold   time.Duration
	minHold   time.Duration
	wait      time.Duration
	limited   bool // wait is set
	reentrant bool

	handoff int
	prefix  string
	base    uint64 // added to the store's numbers
	require []Requirement
	logger  *slog.Logger
	tracer  Tracer

	err error // of an option's own value
}

type lockerOption func(*settings)

func (o lockerOption) locker(s *settings) { o(s) }

type acquireOption func(*settings)

func (o acquireOption) locker(s *settings)  { o(s) }
func (o acquireOption) acquire(s *settings) { o(s) }

// WithTTL sets how long the key stays taken after its holder has died; renewal keeps a living holder's lease. A store
// may round it up: see Guarantees.
func WithTTL(ttl time.Duration) AcquireOption {
	return acquireOption(func(s *settings) { s.ttl = ttl })
}

// WithoutRenewal lets the lease end after its TTL, unless Lease.Renew prolongs it.
func WithoutRenewal() AcquireOption {
	return acquireOption(func(s *settings) { s.manual = true })
}

// WithMaxHold ends the lease after d, whatever renewal could do, so that a holder that hangs does not keep the key for
// ever. A store's Granularity comes on top.
func WithMaxHold(d time.Duration) AcquireOption {
	return acquireOption(func(s *settings) {
		s.maxHold = d
		if d <= 0 {
			s.err = fmt.Errorf("%w: max hold %v is not positive", ErrInvalid, d)
		}
	})
}

// WithMinHold keeps the key taken for at least d after it was granted, even when it is released sooner, so that a job
// shorter than the difference between two hosts' clocks does not run twice. Release asks the store for what is left, for
// up to a second; if the store does not answer, what the lease had left stands.
func WithMinHold(d time.Duration) AcquireOption {
	return acquireOption(func(s *settings) {
		s.minHold = d
		if err := backend.ValidateTTL(d); err != nil {
			s.err = fmt.Errorf("%w: min hold %v is not between 0 and %v", ErrInvalid, d, backend.MaxTTL)
		}
	})
}

// WithWait limits how long Acquire waits for the key. Then it is ErrHeld if the key was busy: the store has said so, or a holder of
// this process was in front. A store that has said nothing by then is ErrUnavailable, with its last error if there was one: the key
// may be free. Unlike a deadline on the context, the limit does not end the lease's own Context. 0 does not wait at all, as
// TryAcquire.
func WithWait(d time.Duration) AcquireOption {
	return acquireOption(func(s *settings) {
		s.wait, s.limited = d, true
		if d < 0 {
			s.err = fmt.Errorf("%w: wait %v is negative", ErrInvalid, d)
		}
	})
}

// Reentrant lets a key that is held under the context of the call be acquired again: each acquisition counts, and the
// last Release releases. The first one's TTL, renewal, minimum and maximum hold stand. Without it that is ErrDeadlock.
//
// Two goroutines that share the lease's Context are one holder to it: both get the key at once, and are not excluded from each other.
// Give each a context that is not the lease's, or a mutex between them.
func Reentrant() AcquireOption {
	return acquireOption(func(s *settings) { s.reentrant = true })
}

// WithHandoff sets how often in a row, 255 at most, a live lease is handed to the next waiting goroutine of this Locker
// before other processes get their turn. 0 turns it off. Whatever n is, a lease is not handed on later than a second
// after the store granted it.
func WithHandoff(n int) Option {
	return lockerOption(func(s *settings) {
		s.handoff = n
		if n < 0 || n > maxHandoff {
			s.err = fmt.Errorf("%w: hand-off %d is not between 0 and %d", ErrInvalid, n, maxHandoff)
		}
	})
}

// WithPrefix puts prefix before every key, so that applications can share a store. It counts towards a key's length.
func WithPrefix(prefix string) Option {
	return lockerOption(func(s *settings) { s.prefix = prefix })
}

// WithTokenBase adds n to every number of the store, so that the tokens of one that follows another go on where the other's have ended:
// see docs/switching.md. A sum that is not below 2^55 is ErrUnsupported, and the lease is given back. n counts the store's numbers,
// not Lease.Token, which is 256 times as much. A store without tokens still has none.
func WithTokenBase(n uint64) Option {
	return lockerOption(func(s *settings) {
		s.base = n
		if n >= backend.TokenLimit {
			s.err = fmt.Errorf("%w: token base %d is not below 2^55", ErrInvalid, n)
		}
	})
}

// Require makes opening fail with ErrUnsupported, and say what is missing, on a store that does not promise all of this.
func Require(r ...Requirement) Option {
	return lockerOption(func(s *settings) { s.require = append(s.require, r...) })
}

// WithLogger reports renewals that did not work, leases that were lost, and releases of unknown outcome. The default is
// silence. Keys and owners are logged, URLs are not.
func WithLogger(logger *slog.Logger) Option {
	return lockerOption(func(s *settings) { s.logger = logger })
}

func newSettings(opts []Option) (settings, error) {
	s := settings{ttl: DefaultTTL, handoff: DefaultHandoff}
	for _, o := range opts {
		o.locker(&s)
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if len(s.prefix) >= backend.MaxKeyLen {
		return s, fmt.Errorf("%w: prefix of %d bytes leaves no room for a key", ErrInvalid, len(s.prefix))
	}
	return s, s.validate()
}

// with returns the settings of one acquisition.
func (s settings) with(opts []AcquireOption) (*settings, error) {
	for _, o := range opts {
		o.acquire(&s)
	}
	return &s, s.validate()
}

func (s *settings) validate() error {
	if s.err != nil {
		return s.err
	}
	if err := backend.ValidateTTL(s.ttl); err != nil {
		return err
	}
	if s.maxHold > 0 && s.minHold > s.maxHold {
		return fmt.Errorf("%w: min hold %v is longer than max hold %v", ErrInvalid, s.minHold, s.maxHold)
	}
	return nil
}

// leaseTTL is the TTL to ask for at the start of a tenure.
func (s *settings) leaseTTL() time.Duration {
	if s.maxHold > 0 {
		return min(s.ttl, s.maxHold)
	}
	return s.ttl
}
