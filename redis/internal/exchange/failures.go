package exchange

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
)

// ErrNoAnswer is an unknown outcome: no answer came in time. The request may never have been sent.
var ErrNoAnswer = fmt.Errorf("%w: no answer from redis in time", backend.ErrUnavailable)

// Unavailable makes an error that tells nothing of the key ErrUnavailable: a connection that failed, a server that cannot serve now.
// What a limit of our own has ended is no error of a context, which would be taken for the caller's.
func Unavailable(err error) error {
	switch {
	case err == nil || errors.Is(err, backend.ErrUnavailable) && !backend.IsContextError(err):
		return err
	case backend.IsContextError(err):
		return fmt.Errorf("%w: %v", ErrNoAnswer, err) // still Passing
	case Passing(err) || errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
	}
	return err
}

// NoAnswer is the error of a request that was not answered for so long, and may have failed with err.
func NoAnswer(within time.Duration, err error) error {
	none := fmt.Errorf("%w (%v)", ErrNoAnswer, within.Round(time.Millisecond))
	// A context's error would be mistaken for the caller's.
	if err != nil && !backend.IsContextError(err) {
		return fmt.Errorf("%w: %w", none, err)
	}
	return none
}

// IsReply reports whether err is what a server answered, so that the outcome is known.
func IsReply(err error) bool {
	var e redis.Error
	return errors.As(err, &e)
}

// Definite reports whether err tells that the request was not carried out. single tells that it was for one server, to
// which a client makes one attempt (see command), where a cluster's may go on to another.
func Definite(err error, single bool) bool {
	var op *net.OpError
	var none notSentError
	switch {
	case IsReply(err), backend.Definite(err), errors.As(err, &none):
		return true
	case single: // nothing was sent in this attempt, nor by the client in one before it
		return errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &op) && op.Op == "dial"
	}
	return false
}

// Passing reports whether an attempt may succeed soon that failed with err: the connection broke, or the server is being
// started, failed over or reconfigured, or is short of something.
func Passing(err error) bool {
	if IsReply(err) {
		for _, prefix := range []string{
			"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "BUSY", "MISCONF", "OOM",
			"NOREPLICAS", "max number of clients",
		} {
			if redis.HasErrorPrefix(err, prefix) {
				return true
			}
		}
		return false
	}
	if errors.Is(err, redis.ErrClosed) || backend.Definite(err) {
		return false
	}
	var netErr net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrNoAnswer) ||
		errors.As(err, &netErr) || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, redis.ErrPoolExhausted)
}

// LeastPatience is the shortest time for which a waiter outlives an outage.
const LeastPatience = 10 * time.Second

// ErrReplicas means that a grant or renewal has not reached enough replicas. A grant is given back.
var ErrReplicas = fmt.Errorf("%w: too few replicas have the lease", backend.ErrUnavailable)
