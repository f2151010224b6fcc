package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// ErrNoAnswer means that no reply arrived in time, so the outcome is unknown. The request may never have been sent.
var ErrNoAnswer = fmt.Errorf("%w: no answer from redis in time", backend.ErrUnavailable)

// Unavailable wraps an error that is no reply about the key, such as a failed connection, in ErrUnavailable. If ctx, the
// caller's context, has ended, its error stays unchanged. If a limit of this package ended the request, the result is
// not a context error, because callers would mistake that for the error of their own context.
func Unavailable(ctx context.Context, err error) error {
	ended := kit.IsContextError(err)
	switch {
	case err == nil, ended && kit.Ended(ctx), errors.Is(err, backend.ErrUnavailable) && !ended:
		return err
	case ended:
		return fmt.Errorf("%w: %v", ErrNoAnswer, err) // still Passing
	case Passing(err) || errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
	}
	return err
}

// NoAnswer returns the error of a request that got no reply within that time. err, if not nil, is the cause.
func NoAnswer(within time.Duration, err error) error {
	none := fmt.Errorf("%w (%v)", ErrNoAnswer, within.Round(time.Millisecond))
	// A context's error would be mistaken for that of the caller's context.
	if err != nil && !kit.IsContextError(err) {
		return fmt.Errorf("%w: %w", none, err)
	}
	return none
}

// IsReply reports whether err is a reply of a server, so that the outcome is known.
func IsReply(err error) bool {
	var e redis.Error
	return errors.As(err, &e)
}

// Definite reports whether err means that the request did not run. If go-redis did not get a connection, nothing was
// sent, because it made no earlier attempt (see command). A cluster client also tries again after a reply that refers
// it to another server, but then the request has not run either.
func Definite(err error) bool {
	var op *net.OpError
	var none notSentError
	return IsReply(err) || kit.Definite(err) || errors.As(err, &none) ||
		errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &op) && op.Op == "dial"
}

// Passing reports whether err is temporary: the connection broke, or the server is starting, failing over, being
// reconfigured or short of resources.
func Passing(err error) bool {
	var reply redis.Error
	if errors.As(err, &reply) {
		return PassingText(reply.Error())
	}
	if errors.Is(err, redis.ErrClosed) || kit.Definite(err) {
		return false
	}
	var netErr net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrNoAnswer) ||
		errors.As(err, &netErr) || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, redis.ErrPoolExhausted)
}

// passingText matches the errors of a server that is temporarily unable to serve. Scripts see the error of a command
// inside a longer text. Before Redis 7.0, so does the client that runs the script: "ERR Error running script (call to
// f_…): @user_script:12: @user_script: 12: -READONLY You can't write against a read only replica."
var passingText = regexp.MustCompile(`(^|[ -])(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|BUSY|` +
	`MISCONF|OOM|NOREPLICAS|max number of clients) `)

// PassingText reports whether text, the error of a server or of a command in a script, is temporary.
func PassingText(text string) bool { return passingText.MatchString(text) }

// LeastPatience is the shortest time for which a queued waiter survives an outage.
const LeastPatience = 10 * time.Second

// ErrReplicas means that a grant or renewal has not reached enough replicas. An Acquire that fails releases such a grant.
// A waiter keeps it on the master, and requests the key again.
var ErrReplicas = fmt.Errorf("%w: too few replicas have the lease", backend.ErrUnavailable)
