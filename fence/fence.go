// Package fence checks fencing tokens at the resource, atomically with each write. It refuses the token of an earlier
// holder. So a holder that was paused beyond its lease cannot overwrite what a later holder has written.
//
// The token is that of the writer's lease, [github.com/anylock/lock.Lease.Token], or any other number that rises with
// every holder.
//
//   - [Table] keeps the highest tokens in a table of their own, [Column] in columns of your table. Both check inside
//     your transaction, in Postgres, MySQL, MariaDB and SQLite.
//   - Package redisfence runs your Lua script in Redis, after the check.
//   - Package fencehttp has the header for a token, and a middleware that refuses stale tokens.
//   - [Guard] protects a resource inside this process.
//
// # What it guarantees
//
// Once a write with a token has taken effect, no write with a lower token does. A lower token fails with a
// [StaleError], which matches [ErrStale]. The same token passes any number of times, because it belongs to the same
// holder. After any other error the token was not checked: do not write.
//
// The resource accepts the previous holder until the new holder's first check. Therefore check the token before you
// read the data that the write depends on.
//
// # Shared leases
//
// The holders of shared leases (lock.Shared, or recipe.RW) check with CheckShared and DoShared. The resource keeps two
// numbers, the highest exclusive and the highest shared token. A writer is refused if either number is above its token.
// A reader is refused only if the exclusive number is above its token. The tokens of readers that overlap have no
// order, so no reader may exclude another. One number for both would refuse readers whose leases are live.
//
// After the first check of a reader, no write with a lower token takes effect. After the first check of a writer, no
// reader with a lower token passes.
package fence

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/anylock/lock/backend"
)

// ErrStale means that the resource has seen a higher token: the lease has ended, and a later holder has used the
// resource. Before you repeat a write with a new token, read again the data that the write depends on.
var ErrStale = errors.New("stale fencing token")

// A StaleError matches ErrStale and names the token that was refused.
type StaleError struct {
	Resource string // as the check names it; empty for a Guard
	Token    uint64 // refused
	Seen     uint64 // the highest token that the resource has seen, of those that refuse Token
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

// Compare returns a StaleError if token is lower than seen, which is 0 if no token has been seen. For a token of 0 (a
// store without tokens) or above 2^63-1 the error is lock.ErrInvalid.
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
