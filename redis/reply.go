package redis

import (
	"slices"
	"strconv"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

// An acquireReply is the reply of acquireScript.
type acquireReply struct {
	token  uint64         // of a grant; 0 for a refusal
	holder backend.Holder // of a refusal
	added  bool           // the owner was not in the queue before
}

func parseAcquire(v any) (acquireReply, error) {
	if number, granted := v.(string); granted {
		token, err := strconv.ParseUint(number, 10, 64)
		if err != nil || token == 0 {
			return acquireReply{}, exchange.ErrReply(v)
		}
		return acquireReply{token: token}, nil
	}
	h, added, err := parseHolder(v)
	return acquireReply{holder: h, added: added == 1}, err
}

func parseInspect(v any) (backend.Holder, error) {
	if list, ok := v.([]any); ok && len(list) == 0 {
		return backend.Holder{}, nil
	}
	h, waiters, err := parseHolder(v)
	h.Waiters = int(waiters)
	return h, err
}

// parseHolder returns the holder of a key that is taken, and the number that precedes the number of shared leases.
func parseHolder(v any) (h backend.Holder, n int64, err error) {
	f := exchange.ReadFields(v)
	h, n = f.Holder(), f.Number()
	h.Shared = int(f.Number())
	return h, n, f.Err()
}

// The replies of renewScript for a lease.
const (
	renewLost = int64(0)
	renewDone = int64(1)
)

// wasExtended reports whether a reply of renewScript means that another client has extended the lease meanwhile.
func wasExtended(v any) bool {
	list, _ := v.([]any)
	return len(list) == 1 && list[0] == int64(2)
}

// renewErrors returns the error of each of n leases, from the result of renewScript. The result has both a reply and an
// error if too few replicas have the renewals.
func renewErrors(r exchange.Result, n int) []error {
	list, _ := r.V.([]any)
	if r.V == nil && r.Err != nil || len(list) == 1 && list[0] == renewDone { // no reply, or all leases were renewed
		return slices.Repeat([]error{r.Err}, n)
	}
	errs := make([]error, n)
	for i := range errs {
		switch {
		case len(list) == n && list[i] == renewDone:
			errs[i] = r.Err
		case len(list) == n && list[i] == renewLost:
			errs[i] = backend.ErrLost
		default:
			errs[i] = exchange.ErrReply(r.V)
		}
	}
	return errs
}

// isGrant reports whether a reply of acquireScript is a grant, and not a refusal.
func isGrant(v any) bool {
	_, granted := v.(string)
	return granted
}

// isRenewal reports whether a reply of renewScript renews a lease.
func isRenewal(v any) bool {
	list, _ := v.([]any)
	return slices.Contains(list, any(renewDone))
}
