package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
)

// A request is one script on the keys of one slot.
type request struct {
	script script
	keys   []string
	args   []any
	ack    bool // enough replicas must have it, if Options.MinReplicas asks for any
	// late runs if the caller stopped waiting before the request had ended, when it has ended.
	late func()
}

// errNoAnswer is an unknown outcome: the request was sent and no answer came in time.
var errNoAnswer = errors.New("no answer from redis in time")

// eval makes a request, again if it fails in a way that passes soon, all within Options.Timeout and ctx: scripts answer
// the same when they are sent again. It returns promptly when ctx ends, whatever the client does. unanswered tells that
// an attempt may have been carried out without an answer.
func (b *Backend) eval(ctx context.Context, q request) (v any, unanswered bool, err error) {
	rctx, cancel := context.WithTimeout(ctx, b.options.Timeout)
	defer cancel()
	pause := backend.Pause{Min: 5 * time.Millisecond, Max: 100 * time.Millisecond}
	const attempts = 4
	for i := 1; ; i++ {
		v, err = b.once(rctx, q)
		if err == nil {
			return v, unanswered, nil
		}
		unanswered = unanswered || !b.definite(err)
		if rctx.Err() != nil {
			break
		}
		if i == attempts || !passing(err) {
			return nil, unanswered, err
		}
		if backend.Sleep(rctx, pause.Next(0)) != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return nil, unanswered, backend.ContextError(ctx, err)
	}
	return nil, unanswered, noAnswer(b.options.Timeout, err)
}

func noAnswer(within time.Duration, last error) error {
	err := fmt.Errorf("%w (%v)", errNoAnswer, within)
	// A context's error would be mistaken for the caller's.
	if last != nil && !errors.Is(last, context.Canceled) && !errors.Is(last, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return err
}

type result struct {
	v   any
	err error
}

// once makes one attempt. go-redis does not end a request when its context is cancelled, nor, by default, at its
// deadline. So the request runs on a goroutine of its own, which ends when the client's timeouts end it.
func (b *Backend) once(ctx context.Context, q request) (any, error) {
	return await(ctx, &b.calls, q.late, func() (any, error) { return b.send(ctx, q) })
}

// await runs f on a goroutine of its own and returns what it returned, or ctx's error as soon as ctx ends; then late, if
// not nil, runs when f has ended.
func await(ctx context.Context, c *calls, late func(), f func() (any, error)) (any, error) {
	if !c.begin() {
		return nil, backend.ErrClosed
	}
	var settled atomic.Bool // by the one who comes first: the answer, or the end of ctx
	answer := make(chan result, 1)
	go func() {
		defer c.end()
		v, err := f()
		taken := settled.CompareAndSwap(false, true)
		answer <- result{v, err}
		if !taken && late != nil {
			late()
		}
	}()
	select {
	case r := <-answer:
		return r.v, r.err
	case <-ctx.Done():
		if settled.CompareAndSwap(false, true) {
			return nil, ctx.Err()
		}
		r := <-answer
		return r.v, r.err
	}
}

// send puts the request on the wire.
func (b *Backend) send(ctx context.Context, q request) (any, error) {
	if q.ack && b.options.MinReplicas > 0 {
		return b.sendAcked(ctx, q)
	}
	return q.script.run(ctx, b.client, q.keys, q.args)
}

// isReply reports whether err is what a server answered, so that the outcome is known.
func isReply(err error) bool {
	var e redis.Error
	return errors.As(err, &e)
}

// definite reports whether err tells that the request was not carried out.
func (b *Backend) definite(err error) bool {
	var op *net.OpError
	switch {
	case isReply(err), backend.Definite(err):
		return true
	case b.single: // nothing was sent in this attempt, nor by the client in one before it
		return errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &op) && op.Op == "dial"
	}
	return false
}

// passing reports whether an attempt may succeed soon that failed with err: the connection broke, or the server is being
// started, failed over or reconfigured, or is short of something.
func passing(err error) bool {
	if isReply(err) {
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
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errNoAnswer) ||
		errors.As(err, &netErr) || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, redis.ErrPoolExhausted)
}
