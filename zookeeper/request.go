package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/backend/kit"
)

var (
	errNoConnection = fmt.Errorf("%w: no connection to zookeeper", backend.ErrUnavailable)
	// errNoAnswer reports an unknown outcome: the request was sent, or is about to be, and no reply arrived in time.
	errNoAnswer = fmt.Errorf("%w: no answer from zookeeper in time", backend.ErrUnavailable)
)

// answerGrace is how much later than its context a request may return. A reply that arrives in this time makes the
// outcome known.
const answerGrace = 100 * time.Millisecond

// await makes a request of s: do, which calls the library. The library does not support contexts, and may block for as
// long as the servers hang. So await runs do on a goroutine of its own, and returns its result. After a timeout it
// returns errNoAnswer; if ctx or the session ends, the reason. If the result arrives later, await calls late with it,
// unless late is nil. sent is taken before the request is sent.
func await[T any](
	ctx context.Context, s *session, do func(c *zk.Conn) (T, error), late func(v T, err error),
) (v T, sent time.Time, err error) {
	timeout := s.b.options.Timeout
	end := time.Now().Add(timeout)
	conn, err := s.whenConnected(ctx, end)
	if err != nil {
		return v, time.Time{}, &notSent{err}
	}
	if !s.b.calls.Begin() {
		return v, time.Time{}, &notSent{backend.ErrClosed}
	}
	type result struct {
		v   T
		err error
	}
	answer, abandoned := make(chan result), make(chan struct{})
	sent = time.Now()
	go func() {
		defer s.b.calls.End()
		v, err := do(conn)
		switch {
		case err == nil || isReply(err):
			s.contact.answered(sent)
		case errors.Is(err, zk.ErrNoServer) && s.hasEnded():
			err = &notSent{s.endReason()}
		}
		select {
		case answer <- result{v, err}:
		case <-abandoned:
			if late != nil {
				late(v, err)
			}
		}
	}()
	select {
	case r := <-answer:
		return r.v, sent, r.err
	case <-time.After(time.Until(end)):
	case <-s.ended:
	case <-ctx.Done():
	}
	select {
	case r := <-answer:
		return r.v, sent, r.err
	case <-time.After(answerGrace):
	}
	close(abandoned)
	return v, sent, cmp.Or(kit.ContextError(ctx, nil), s.endReason(), fmt.Errorf("%w (%v)", errNoAnswer, timeout))
}

// whenConnected waits until s is connected, and returns the library's client. It fails at end.
func (s *session) whenConnected(ctx context.Context, end time.Time) (*zk.Conn, error) {
	s.mu.Lock()
	conn, ready, connected := s.conn, s.ready, s.connected
	s.mu.Unlock()
	if connected && !s.hasEnded() {
		return conn, nil
	}
	select {
	case <-ready:
	case <-s.ended:
		return nil, s.endReason()
	case <-ctx.Done():
		return nil, kit.ContextError(ctx, nil)
	case <-time.After(time.Until(end)):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil: // ready may be closed too
		return nil, s.err
	case s.connected:
		return s.conn, nil
	case s.dialErr != nil:
		return nil, fmt.Errorf("%w: %v", errNoConnection, s.dialErr)
	}
	return nil, errNoConnection
}

// awaitIdempotent is await for an idempotent request. If a connection breaks, awaitIdempotent repeats the request on
// the next one.
func awaitIdempotent[T any](ctx context.Context, s *session, do func(c *zk.Conn) (T, error)) (v T, err error) {
	_, err = s.repeat().Do(ctx, func(bool) (err error) {
		v, _, err = await(ctx, s, do, nil)
		return err
	})
	return v, err
}

// repeat returns the policy for repeating a request after a connection broke.
func (s *session) repeat() *kit.Repeat {
	const pause = 5 * time.Millisecond // the library detects a broken connection soon
	return &kit.Repeat{
		Timeout: s.b.options.Timeout, Pause: kit.Pause{Min: pause, Max: pause},
		Classify: func(err error) (kit.Outcome, bool) {
			switch {
			case isReply(err):
				return kit.Answered, false
			case wasNotSent(err):
				return kit.NotSent, isBroken(err)
			}
			return kit.Unknown, isBroken(err)
		},
	}
}

// isBroken reports whether err means that the connection ended before the reply.
func isBroken(err error) bool { return errors.Is(err, zk.ErrConnectionClosed) }

// A notSent is the error of a request that was never sent.
type notSent struct{ err error }

func (e *notSent) Error() string { return e.err.Error() }
func (e *notSent) Unwrap() error { return e.err }

func wasNotSent(err error) bool {
	_, ok := errors.AsType[*notSent](err)
	return ok
}

// isReply reports whether err is a server's reply, so that the outcome is known. ErrInvalidPath is none: the library
// checks paths itself.
func isReply(err error) bool {
	return slices.ContainsFunc([]error{
		zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrInvalidACL,
		zk.ErrNoChildrenForEphemerals, zk.ErrAPIError, zk.ErrBadArguments,
	}, func(reply error) bool { return errors.Is(err, reply) })
}

// unavailable makes err match backend.ErrUnavailable if the ensemble was not reached, or did not answer. A time limit
// of the store, or of a dial, does not match the error of the caller's context.
func unavailable(ctx context.Context, err error) error {
	if isTransient(err) && !errors.Is(err, backend.ErrHeld) && !errors.Is(err, backend.ErrUnavailable) &&
		!kit.IsContextError(err) && !kit.Ended(ctx) {
		err = fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
	}
	return kit.NotOurs(ctx, err)
}

// isTransient reports whether another attempt may succeed soon after err.
func isTransient(err error) bool {
	return err != nil && !isReply(err) && !kit.Definite(err) && !errors.Is(err, errAuth) &&
		!errors.Is(err, errDeleted) && !errors.Is(err, backend.ErrLost)
}

// children returns the names of dir's children. If dir is missing, the error is zk.ErrNoNode.
func (s *session) children(ctx context.Context, dir string) ([]string, error) {
	return awaitIdempotent(ctx, s, func(c *zk.Conn) ([]string, error) {
		names, _, err := c.Children(dir)
		return names, err
	})
}

// currentChildren returns the names of dir's children, and misses no write that was committed before the call. It first
// makes a write that changes nothing, which the server answers only when it has applied all earlier writes. A
// standalone server has always applied them. Sync would not do: a leader answers it before it has applied writes that
// followers have already confirmed to others (its CommitProcessor does not order syncs).
func (s *session) currentChildren(ctx context.Context, dir string) ([]string, error) {
	if !s.b.standalone {
		if err := s.check(ctx, s.b.root); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
	}
	return s.children(ctx, dir)
}

// check makes a write that changes nothing: it checks that paths exist. If one of paths is missing, the error is
// zk.ErrNoNode.
func (s *session) check(ctx context.Context, paths ...string) error {
	ops := make([]any, len(paths))
	for i, p := range paths {
		ops[i] = &zk.CheckVersionRequest{Path: p, Version: -1}
	}
	_, err := awaitIdempotent(ctx, s, func(c *zk.Conn) (r []zk.MultiResponse, err error) {
		sent := time.Now()
		if r, err = c.Multi(ops...); err == nil {
			s.contact.committed(sent)
		}
		return r, err
	})
	return err
}

// delete deletes a node. If the node is missing, the error is zk.ErrNoNode. Like awaitIdempotent, delete repeats the
// request if a connection breaks. unsure reports whether an earlier request, which got no reply, may have deleted the
// node.
func (s *session) delete(ctx context.Context, path string) (unsure bool, err error) {
	return s.repeat().Do(ctx, func(bool) error {
		_, _, err := await(ctx, s, func(c *zk.Conn) (struct{}, error) { return struct{}{}, c.Delete(path, -1) }, nil)
		return err
	})
}

// token returns the token of a node. If the node is missing, the error is zk.ErrNoNode.
func (s *session) token(ctx context.Context, path string) (uint64, error) {
	return awaitIdempotent(ctx, s, func(c *zk.Conn) (uint64, error) {
		data, stat, err := c.Get(path)
		if err != nil {
			return 0, err
		}
		return cmp.Or(recordedToken(data), uint64(stat.Czxid)), nil
	})
}

// childCount returns how many children the node at path has. If there is no such node, the error is zk.ErrNoNode.
func (s *session) childCount(ctx context.Context, path string) (int, error) {
	return awaitIdempotent(ctx, s, func(c *zk.Conn) (int, error) {
		found, stat, err := c.Exists(path)
		switch {
		case err != nil:
			return 0, err
		case !found:
			return 0, zk.ErrNoNode
		}
		return int(stat.NumChildren), nil
	})
}
