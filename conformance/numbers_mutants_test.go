package conformance_test

import (
	"context"
	"time"

	"github.com/anylock/lock/backend"
)

// numberMutants are bugs of TTLs that overflow a store's type, are cut to a coarser unit, or are too small.
var numberMutants = []mutant{
	{"renewal's TTL in milliseconds is an int32", "RenewalsAreKept"},
	{"renewal's TTL in milliseconds is a uint32", "RenewalsAreKept"},
	{"renewal's TTL in microseconds is an int32", "RenewalsAreKept"},
	{"renewal's TTL in seconds is a uint16", "RenewalsAreKept"},
	{"renewal over a day has no expiry", "RenewalsAreKept"},
	{"renewal over an hour is for an hour", "RenewalsAreKept"},
	{"batch's TTLs in milliseconds are int32", "RenewalsAreKept"},
	{"TTL over 10 s is cut to seconds", "OddTTLsAreKept"},
	{"TTL between one minute and two is cut to one", "OddTTLsAreKept"},
	{"TTL over 10 s is cut to multiples of 5 s", "OddTTLsAreKept"},
	{"TTL over 10 s is cut, and Inspect returns none", "OddTTLsAreKept"},
	{"renewal over 10 s is cut to seconds", "RenewalsAreKept"},
	{"waiter's TTL is cut to seconds", "OddTTLsAreKept"},
	{"waiter's TTL is cut to seconds, and Inspect returns none", "OddTTLsAreKept"},
	{"waiter's TTL in milliseconds is an int32", "OddTTLsAreKept"},
	{"waiter's TTL is an hour at most", "OddTTLsAreKept"},

	{"TTL of a reader that has waited is cut to seconds", "OddTTLsAreKept"},
	{"resume of a reader cuts its TTL to seconds", "OddTTLsAreKept"},
	{"renewal below MinTTL ends the lease", "TinyRenewalsAreRoundedUp"},
	{"renewal below MinTTL is refused", "TinyRenewalsAreRoundedUp"},
	{"renewal below MinTTL is kept as asked", "TinyRenewalsAreRoundedUp"},
	{"renewal below MinTTL does nothing", "TinyRenewalsAreRoundedUp"},
	{"renewal of a reader below MinTTL is kept as asked", "TinyRenewalsAreRoundedUp"},
}

// noExpiry is how long a store keeps an entry without expiry.
const noExpiry = 200 * 365 * 24 * time.Hour

// keepRenewed is keep for a renewal.
func (s *server) keepRenewed(ttl time.Duration) time.Duration {
	const day = 24 * time.Hour
	switch {
	case s.is("renewal's TTL in milliseconds is an int32"):
		return time.Duration(int32(ttl/time.Millisecond)) * time.Millisecond
	case s.is("renewal's TTL in milliseconds is a uint32"):
		return time.Duration(uint32(ttl/time.Millisecond)) * time.Millisecond
	case s.is("renewal's TTL in microseconds is an int32"):
		return time.Duration(int32(ttl/time.Microsecond)) * time.Microsecond
	case s.is("renewal's TTL in seconds is a uint16") && ttl > time.Hour:
		return time.Duration(uint16(ttl/time.Second)) * time.Second
	case s.is("renewal over a day has no expiry") && ttl > day:
		return noExpiry
	case s.is("renewal over an hour is for an hour"):
		return min(ttl, time.Hour)
	case s.is("renewal is cut to multiples of 100 ms") && ttl > 2*time.Second:
		return ttl.Truncate(100 * time.Millisecond)
	case s.is("renewal over 10 s is cut to seconds") && ttl > 10*time.Second:
		return ttl.Truncate(time.Second)
	}
	return s.keep(ttl)
}

// keepOdd returns how long the store keeps a lease whose TTL is not a round number.
func (s *server) keepOdd(ttl time.Duration) time.Duration {
	switch {
	case s.is("TTL over 10 s is cut to seconds", "TTL over 10 s is cut, and Inspect returns none") && ttl > 10*time.Second:
		return ttl.Truncate(time.Second)
	case s.is("TTL is 30 seconds at most, and Inspect returns none"):
		return min(ttl, aged30)
	case s.is("TTL is a minute at most, and Inspect returns none"):
		return min(ttl, time.Minute)
	case s.is(ttlHour):
		return min(ttl, time.Hour)
	case s.is("TTL is cut to multiples of 4 ms"):
		return max(ttl.Truncate(4*time.Millisecond), 10*time.Millisecond)
	case s.is("TTL over 10 s is cut to multiples of 5 s") && ttl > 10*time.Second:
		return ttl.Truncate(5 * time.Second)
	case s.is("TTL between one minute and two is cut to one") && ttl > time.Minute && ttl < 2*time.Minute:
		return time.Minute
	}
	return ttl
}

// keepWaited is keep for a grant to an owner that may have waited.
func (s *server) keepWaited(r backend.Request, ttl time.Duration) time.Duration {
	switch {
	case !r.Wait:
	case s.is("waiter's TTL is cut to seconds", "waiter's TTL is cut to seconds, and Inspect returns none") &&
		ttl > time.Second:
		return ttl.Truncate(time.Second)
	case s.is("waiter's TTL in milliseconds is an int32"):
		return time.Duration(int32(ttl/time.Millisecond)) * time.Millisecond
	case s.is("waiter's TTL is an hour at most"):
		return min(ttl, time.Hour)
	}
	return s.keepShortest(r, s.keep(ttl))
}

// renewTiny applies the bugs of renewals below MinTTL. done reports whether err is the result.
func (b *bent) renewTiny(ctx context.Context, ttl time.Duration) (err error, done bool) {
	switch {
	case b.is("renewal below MinTTL ends the lease"):
		b.c.server.renew(b.Key(), b.Owner(), b.c, ttl)
		b.Lose()
		return backend.ErrLost, true
	case b.is("renewal below MinTTL is refused"):
		return backend.ErrInvalid, true
	case b.Shared() && b.is("renewal of a reader below MinTTL is kept as asked"):
		err = b.Life.Renew(ctx, ttl)
		b.c.server.renewReader(b.Key(), b.Owner(), ttl)
		return err, true
	case b.is("renewal below MinTTL is kept as asked"):
		err = b.Life.Renew(ctx, ttl)
		b.c.server.renew(b.Key(), b.Owner(), b.c, ttl)
		return err, true
	case b.is("renewal below MinTTL does nothing"):
		return nil, true
	}
	return nil, false
}
