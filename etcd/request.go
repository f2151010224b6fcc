package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

const (
	// attemptShare is the part of Options.Timeout that one attempt may take before another endpoint is tried.
	attemptShare = 4
	leastPause   = 10 * time.Millisecond
	mostPause    = 200 * time.Millisecond
)

// repeat sends a request until it is answered, again where an attempt has failed in a way that passes: the connection
// broke, there was no leader, or no answer came in time. So op must be safe to repeat. The client spreads attempts over
// its endpoints. Options.Timeout bounds the whole.
//
// unanswered tells that an attempt was not answered, so that it may still be carried out, also where a later one was.
func (b *Backend) repeat(ctx context.Context, op func(ctx context.Context) error) (unanswered bool, err error) {
	pause := kit.Pause{Min: leastPause, Max: mostPause}
	r := kit.Repeat{Timeout: b.options.Timeout, Pause: pause, Classify: classify}
	unanswered, err = r.Do(ctx, func(bool) error {
		most := b.attemptTime(ctx)
		actx, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), most)
		defer cancel()
		err := op(actx)
		if err != nil && uncertain(err) && kit.Ended(actx) && !kit.Ended(ctx) {
			err = noneWithin(most, err)
		}
		return err
	})
	if kit.IsContextError(err) && kit.Ended(ctx) {
		return unanswered, err
	}
	return unanswered, unavailable(err)
}

// classify returns the outcome of a request that failed with err, and whether it may pass by itself.
func classify(err error) (o kit.Outcome, passes bool) {
	if !uncertain(err) {
		return kit.Answered, false
	}
	return kit.Unknown, passing(err)
}

// unavailable is err as callers get it whose context has not ended: where the servers could not be asked, or a limit of ours has ended the
// request, it is ErrUnavailable, and no error of a context.
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

// attemptTime is how long one attempt may take: a share of what is left until the end of ctx, so that a server which hangs does
// not use up the time of a renewal that others would answer.
func (b *Backend) attemptTime(ctx context.Context) time.Duration {
	most := b.options.Timeout / attemptShare
	if end, ok := ctx.Deadline(); ok {
		most = min(most, max(time.Until(end)/attemptShare, leastLimit))
	}
	return most
}

// noneWithin is err of a request that was ended after d; no error of a context, as the caller's has not ended.
func noneWithin(d time.Duration, err error) error {
	if code(err) == codes.Canceled { // which tells nothing
		return fmt.Errorf("%w (%v)", errNoAnswer, d)
	}
	return fmt.Errorf("%w: %v", errNoAnswer, err)
}

// code is the gRPC code of an error, of a client or of a server.
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

// uncertain reports whether a request that failed with err may have been carried out, or may yet be.
func uncertain(err error) bool {
	switch code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.FailedPrecondition,
		codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return false
	}
	return true
}

// passing reports whether err may pass by itself.
func passing(err error) bool {
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace), errors.Is(err, errThroughProxy), errors.Is(err, backend.ErrLost), kit.Definite(err):
		return false
	case errors.Is(err, backend.ErrUnavailable):
		return true
	}
	switch code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted, codes.Unknown, codes.Internal:
		return true
	}
	return false
}

func isLeaseNotFound(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound)
}

// read reads keys in one request, as they all are at one revision, the present one.
func (b *Backend) read(ctx context.Context, gets ...clientv3.Op) (resp *clientv3.TxnResponse, err error) {
	_, err = b.repeat(ctx, func(ctx context.Context) (err error) {
		resp, err = b.kv.Txn(ctx).Then(gets...).Commit()
		return err
	})
	return resp, err
}

// readAt reads keys as they were at a revision. Any server that has come so far can tell, alone and at once; a read of the
// present waits for what the leader is writing. at may be 0 for the present.
func (b *Backend) readAt(ctx context.Context, at int64, gets ...clientv3.Op) (*clientv3.TxnResponse, error) {
	if at == 0 {
		return b.read(ctx, gets...)
	}
	past := make([]clientv3.Op, len(gets))
	for i, g := range gets {
		clientv3.WithRev(at)(&g)
		clientv3.WithSerializable()(&g)
		past[i] = g
	}
	actx, cancel := context.WithTimeout(ctx, b.options.Timeout/attemptShare)
	resp, err := b.kv.Txn(actx).Then(past...).Commit()
	cancel()
	if err != nil { // a server that lags behind, or has compacted the revision
		return b.read(ctx, gets...)
	}
	return resp, nil
}
