// Package fence is the resource's side of a fencing token. It refuses a token that is lower than the highest one seen, in one step
// with the write, so that a holder that was paused beyond its lease cannot overwrite what a later holder has written.
//
// The token is that of the writer's lease, [github.com/anylock/lock.Lease.Token]. It need not come from this module: any number will do
// that is higher for every later holder.
//
//   - [Table] keeps the highest tokens in a table of their own, [Column] in a column of your table. Both check inside your
//     transaction, in Postgres, MySQL, MariaDB and SQLite.
//   - Package redisfence runs your Lua script in Redis behind the check.
//   - [Guard] protects something inside this process.
//
// # What it guarantees
//
// Once a write with a token has taken effect, no write with a lower token does. A lower token is a [StaleError], which matches
// [ErrStale]. The same token passes any number of times, because it is the same holder's. Any other error means that the check was
// not made: do not write.
//
// The resource learns of a new holder by the holder's first check. Until then it accepts the holder before. Therefore check first,
// and read what the write depends on afterwards.
package fence

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/anylock/lock/backend"
)

// ErrStale means that the resource has seen a higher token: the lease of the writer has ended, and a later holder has been here. Do
// not repeat the write with a new token before you have read again what it depends on.
var ErrStale = errors.New("stale fencing token")

// A StaleError matches ErrStale and says which token was refused.
type StaleError struct {
	Resource string // as the check names it; empty for a Guard
	Token    uint64 // refused
	Seen     uint64 // the highest one that the resource has seen
}

func (e *StaleError) Error() string {
	s := fmt.Sprintf("%v %d: %d was seen", ErrStale, e.Token, e.Seen)
	if e.Resource != "" {
		s = strconv.Quote(e.Resource) + ": " + s
	}
	return s
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }

// Compare returns a StaleError if token is lower than seen, which is 0 if no token has been seen. A token of 0, as of a store without
// tokens, and one above 2^63-1 match lock.ErrInvalid.
func Compare(resource string, token, seen uint64) error {
	switch {
	case token == 0:
		return fmt.Errorf("%w: a fencing token of 0 protects nothing", backend.ErrInvalid)
	case token > math.MaxInt64:
		return fmt.Errorf("%w: fencing token %d is above 2^63-1", backend.ErrInvalid, token)
	case token < seen:
		return &StaleError{Resource: resource, Token: token, Seen: seen}
	}
	return nil
}
