package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	// attemptsPerTimeout is how many attempts fit into Options.Timeout, one after the other. An attempt that takes longer
	// than its part of the timeout is repeated, at another endpoint if there are several.
	attemptsPerTimeout = 4
	leastPause         = 10 * time.Millisecond
	mostPause          = 200 * time.Millisecond
)

// repeat sends a request until it is answered. It repeats an attempt that failed for a passing reason: the connection
// broke, there was no leader, or no reply arrived in time. So op must be safe to repeat. The client spreads attempts
// over its endpoints. Options.Timeout limits all attempts together.
//
// unsure means that an attempt got no reply: it may still be carried out, even if a later attempt was answered.
func (b *Backend) repeat(ctx context.Context, op func(ctx context.Context) error) (unsure bool, err error) {
	pause := kit.Pause{Min: leastPause, Max: mostPause}
	r := kit.Repeat{Timeout: b.options.Timeout, Pause: pause, Classify: classify}
	unsure, err = r.Do(ctx, func(bool) error {
		limit := b.attemptTime(ctx)
		limited, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), limit)
		defer cancel()
		err := op(limited)
		if err != nil && mayHaveRun(err) && kit.Ended(limited) && !kit.Ended(ctx) {
			err = noAnswerWithin(limit, err)
		}
		return err
	})
	if kit.IsContextError(err) && kit.Ended(ctx) {
		return unsure, err
	}
	return unsure, unavailable(err)
}

// commit sends a transaction that executes ops if all conditions hold. See repeat.
func (b *Backend) commit(ctx context.Context, conditions []clientv3.Cmp, ops ...clientv3.Op) (
	resp *clientv3.TxnResponse, unsure bool, err error,
) {
	unsure, err = b.repeat(ctx, func(ctx context.Context) (err error) {
		resp, err = b.kv.Txn(ctx).If(conditions...).Then(ops...).Commit()
		return err
	})
	return resp, unsure, err
}

// classify returns the outcome of a request that failed with err, and whether another attempt may succeed.
func classify(err error) (o kit.Outcome, passes bool) {
	if !mayHaveRun(err) {
		return kit.Answered, false
	}
	return kit.Unknown, passing(err)
}

// unavailable converts err for callers whose context has not ended. If the servers could not be reached, or an internal
// time limit ended the request, the result is ErrUnavailable and not a context error.
func unavailable(err error) error {
	if err == nil || errors.Is(err, backend.ErrUnavailable) {
		return err
	}
	switch code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return fmt.Errorf("%w: %v", backend.ErrUnavailable, err)
	}
	return err
}

// attemptTime returns how long one attempt may take: a share of the time until ctx ends. So a server that hangs does
// not use up the time of a renewal that other servers would answer.
func (b *Backend) attemptTime(ctx context.Context) time.Duration {
	limit := b.options.Timeout / attemptsPerTimeout
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(end)/attemptsPerTimeout, leastLimit))
	}
	return limit
}

// noAnswerWithin returns the error of a request that was canceled after d. It is not a context error, because the
// caller's context has not ended.
func noAnswerWithin(d time.Duration, err error) error {
	if code(err) == codes.Canceled { // the code does not reveal the cause
		return fmt.Errorf("%w (%v)", errNoAnswer, d)
	}
	return fmt.Errorf("%w: %v", errNoAnswer, err)
}

// code returns the gRPC code of an error of the client or of a server.
func code(err error) codes.Code {
	var e rpctypes.EtcdError
	switch {
	case errors.As(err, &e):
		return e.Code()
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	}
	return status.Code(err)
}

// mayHaveRun reports whether a request that failed with err may have been carried out, or may still be.
func mayHaveRun(err error) bool {
	switch code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.FailedPrecondition,
		codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return false
	}
	return true
}

// passing reports whether another attempt may succeed after err.
func passing(err error) bool {
	switch {
	case errors.Is(rpctypes.Error(err), rpctypes.ErrNoSpace), errors.Is(err, backend.ErrLost), kit.Definite(err),
		code(err) == codes.Canceled, code(err) == codes.DataLoss:
		return false
	}
	return mayHaveRun(err)
}

func isLeaseNotFound(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound)
}

// readAt reads keys in one request, as they were at the revision at, 0 for the present. Any server that has reached a
// past revision can reply alone and at once; a read of the present waits for the leader's pending writes. If the past
// revision cannot be read, readAt reads the present.
func (b *Backend) readAt(ctx context.Context, at int64, gets ...clientv3.Op) (*clientv3.TxnResponse, error) {
	if at != 0 {
		past := slices.Clone(gets)
		for i := range past {
			clientv3.WithRev(at)(&past[i])
			clientv3.WithSerializable()(&past[i])
		}
		limited, cancel := context.WithTimeout(ctx, b.options.Timeout/attemptsPerTimeout)
		resp, err := b.kv.Txn(limited).Then(past...).Commit()
		cancel()
		if err == nil { // otherwise the server lags behind, or has compacted the revision
			return resp, nil
		}
	}
	resp, _, err := b.commit(ctx, nil, gets...)
	return resp, err
}
