package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

// errNoAnswer is an unknown outcome: the request was sent, or is about to be, and no answer came in time.
var errNoAnswer = fmt.Errorf("%w: no answer from zookeeper in time", backend.ErrUnavailable)

// answerGrace is how much later than its context a request may return: an answer that is nearly there makes an outcome
// known.
const answerGrace = 100 * time.Millisecond

// A request is one call of the library, which knows no contexts and may block for as long as the servers hang.
type request[T any] struct {
	limit time.Duration // at most; Options.Timeout if zero
	// late runs with what a request brought that nobody waited for any more.
	late func(v T, err error)
	do   func(c *zk.Conn) (T, error)
}

// await makes a request of s, on a goroutine of its own, and returns what it brought; or errNoAnswer, or ctx's error.
// sent is from before the request was sent.
func await[T any](ctx context.Context, s *session, q request[T]) (v T, sent time.Time, err error) {
	var none T
	if q.limit == 0 {
		q.limit = s.b.options.Timeout
	}
	end := time.Now().Add(q.limit)
	conn, err := s.whenReady(ctx, end)
	if err != nil {
		return none, time.Time{}, &notSent{err}
	}
	if !s.b.calls.Begin() {
		return none, time.Time{}, &notSent{backend.ErrClosed}
	}
	type result struct {
		v   T
		err error
	}
	answer, gone := make(chan result), make(chan struct{})
	sent = time.Now()
	go func() {
		defer s.b.calls.End()
		v, err := q.do(conn)
		switch {
		case err == nil || isReply(err):
			s.contact.touched(sent)
		case errors.Is(err, zk.ErrNoServer) && s.isOver(): // it was never sent
			err = &notSent{s.reason()}
		}
		select {
		case answer <- result{v, err}:
		case <-gone:
			if q.late != nil {
				q.late(v, err)
			}
		}
	}()
	t := time.NewTimer(time.Until(end))
	defer t.Stop()
	for over, done, waiting := s.over, ctx.Done(), true; waiting; {
		select {
		case r := <-answer:
			return r.v, sent, r.err
		case <-t.C:
			waiting = false
			continue
		case <-over: // the library is about to say so
		case <-done:
		}
		over, done = nil, nil
		t.Reset(min(answerGrace, time.Until(end)))
	}
	close(gone)
	if err := kit.ContextError(ctx, nil); err != nil {
		return none, sent, err
	}
	if err := s.reason(); err != nil {
		return none, sent, err
	}
	return none, sent, fmt.Errorf("%w (%v)", errNoAnswer, q.limit.Round(time.Millisecond))
}

// ask is await for a request that may be made twice, as it changes nothing the second time: when a connection breaks under it, it is
// made on the next one.
func ask[T any](ctx context.Context, s *session, do func(c *zk.Conn) (T, error)) (v T, sent time.Time, err error) {
	const pause = 5 * time.Millisecond // the library is about to notice
	q := request[T]{limit: s.b.options.Timeout, do: do}
	for end := time.Now().Add(q.limit); ; q.limit = time.Until(end) {
		v, sent, err = await(ctx, s, q)
		if !isBroken(err) || time.Until(end) < pause {
			return v, sent, err
		}
		if err := s.sleep(ctx, pause); err != nil {
			return v, sent, err
		}
	}
}

// isBroken reports whether err tells that a connection ended before the answer: as the library says it, or as the network
// did to whoever wrote to it.
func isBroken(err error) bool {
	var n net.Error
	return errors.Is(err, zk.ErrConnectionClosed) || errors.As(err, &n) && !errors.Is(err, context.DeadlineExceeded)
}

// A notSent is the error of a request that was never made.
type notSent struct{ err error }

func (e *notSent) Error() string { return e.err.Error() }
func (e *notSent) Unwrap() error { return e.err }

func wasNotSent(err error) bool {
	var n *notSent
	return errors.As(err, &n)
}

// isReply reports whether err is what a server answered, so that the outcome is known.
func isReply(err error) bool {
	for _, reply := range []error{
		zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrInvalidACL,
		zk.ErrNoChildrenForEphemerals, zk.ErrAPIError, zk.ErrBadArguments, zk.ErrInvalidPath,
	} {
		if errors.Is(err, reply) {
			return true
		}
	}
	return false
}

// unavailable makes err match backend.ErrUnavailable if it tells that the ensemble could not be asked, or has not answered. A limit of
// ours, also one within the network's dial, is not taken for the end of the caller's context.
func unavailable(ctx context.Context, err error) error {
	switch {
	case !passing(err), errors.Is(err, backend.ErrHeld), kit.Ended(ctx):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %v", backend.ErrUnavailable, err)
	case errors.Is(err, backend.ErrUnavailable):
		return err
	}
	return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
}

// passing reports whether an attempt may succeed soon that failed with err.
func passing(err error) bool {
	return err != nil && !isReply(err) && !kit.Definite(err) && !errors.Is(err, errAuth) &&
		!errors.Is(err, errGone) && !errors.Is(err, backend.ErrLost)
}
