// Package fencehttp carries fencing tokens over HTTP. The holder of a lease sends its token in a header. The resource
// refuses a token lower than the highest token that it has seen.
package fencehttp

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/anylock/lock/fence"
)

// Header names the header with the fencing token of the lease under which a request is sent: a decimal number.
const Header = "Fencing-Token"

// ErrNoToken means that a request has no fencing token.
var ErrNoToken = errors.New("no fencing token")

// SetToken puts a lease's token into a request.
func SetToken(r *http.Request, token uint64) { r.Header.Set(Header, strconv.FormatUint(token, 10)) }

// Token returns the token of a request. The error is ErrNoToken, or describes what is wrong with the header.
func Token(r *http.Request) (uint64, error) {
	values := r.Header.Values(Header)
	if len(values) == 0 {
		return 0, ErrNoToken
	}
	token, err := strconv.ParseUint(strings.Join(values, ","), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the header %s is not one number below 2^64", Header)
	}
	return token, nil
}

// Protect returns a handler that passes a request on to next if its token is not stale. guard returns the Guard of the
// resource that a request is about: the same Guard for all requests about one resource. It returns nil for a request
// that needs no token, such as a GET. The requests of one Guard are served one at a time, so that no request overtakes
// one with a higher token. A Guard is in memory. If a resource outlives this process, or other processes write to it,
// keep the highest token beside its data instead (fence.Table).
//
// The reply to a stale token is 412, to a missing token 428, and to an invalid token 400.
func Protect(next http.Handler, guard func(*http.Request) *fence.Guard) http.Handler {
	return protect(next, guard, (*fence.Guard).Do)
}

// ProtectShared is like Protect for requests under shared leases: a token is stale only if a request with a higher
// token has passed Protect. Several requests are served at a time, but none beside a request that has passed Protect
// with the same Guard.
func ProtectShared(next http.Handler, guard func(*http.Request) *fence.Guard) http.Handler {
	return protect(next, guard, (*fence.Guard).DoShared)
}

func protect(
	next http.Handler, guard func(*http.Request) *fence.Guard, do func(g *fence.Guard, token uint64, f func() error) error,
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g := guard(r)
		if g == nil {
			next.ServeHTTP(w, r)
			return
		}
		token, err := Token(r)
		if err == nil {
			err = do(g, token, func() error {
				next.ServeHTTP(w, r)
				return nil
			})
		}
		switch {
		case err == nil:
		case errors.Is(err, fence.ErrStale):
			http.Error(w, err.Error(), http.StatusPreconditionFailed)
		case errors.Is(err, ErrNoToken):
			http.Error(w, "this request needs the header "+Header, http.StatusPreconditionRequired)
		default:
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
}
