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
	// grace is how long to wait for the answer after the caller's context has ended: it nearly always comes in that
	// time, and an outcome that is known is cleaned up at once and for good.
	grace time.Duration
	limit time.Duration // for all attempts, if shorter than Options.Timeout
	// late runs if an attempt was given up before it had ended, when it has ended.
	late func()
}

// errNoAnswer is an unknown outcome: the request was sent and no answer came in time.
var errNoAnswer = fmt.Errorf("%w: no answer from redis in time", backend.ErrUnavailable)

// unavailable makes an error that tells nothing of the key ErrUnavailable: a connection that failed, a server that cannot serve now.
// What a limit of our own has ended is no error of a context, which would be taken for the caller's.
func unavailable(err error) error {
	switch {
	case err == nil || errors.Is(err, backend.ErrUnavailable) && !isContextError(err):
		return err
	case isContextError(err):
		return fmt.Errorf("%w: %v", backend.ErrUnavailable, err)
	case passing(err) || errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
	}
	return err
}

// eval makes a request, again if it fails in a way that passes soon, all within its limit and ctx: scripts answer the
// same when they are sent again. It returns promptly when ctx ends, whatever the client does. unanswered tells that
// an attempt may have been carried out without an answer.
func (b *Backend) eval(ctx context.Context, q request) (v any, unanswered bool, err error) {
	timeout := b.options.Timeout
	if q.limit > 0 {
		timeout = min(timeout, q.limit)
	}
	end := time.Now().Add(timeout)
	pause := backend.Pause{Min: 5 * time.Millisecond, Max: 100 * time.Millisecond}
	const attempts = 4
	for i := 1; ; i++ {
		v, err = b.deliver(ctx, end, q)
		if err == nil {
			return v, unanswered, nil
		}
		unanswered = unanswered || !definite(err, b.single)
		if backend.Ended(ctx) {
			return nil, unanswered, backend.ContextError(ctx, err)
		}
		d := pause.Next(0)
		// A slot that is on its way to another server refuses scripts until it has arrived.
		last := i >= attempts && !redis.HasErrorPrefix(err, "TRYAGAIN")
		if last || !passing(err) || time.Until(end) < d {
			return nil, unanswered, unavailable(err)
		}
		if err := backend.Sleep(ctx, d); err != nil {
			return nil, unanswered, err
		}
	}
}

// noAnswer is the error of a request that was not answered for so long, and may have failed with err.
func noAnswer(within time.Duration, err error) error {
	none := fmt.Errorf("%w (%v)", errNoAnswer, within.Round(time.Millisecond))
	// A context's error would be mistaken for the caller's.
	if err != nil && !isContextError(err) {
		return fmt.Errorf("%w: %w", none, err)
	}
	return none
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

type result struct {
	v   any
	err error
}

// await runs f and returns what it returned; or errNoAnswer at end, or ctx's error grace after ctx has ended: then late,
// if not nil, runs when f has ended.
//
// It is for what does not go by lanes. go-redis does not end a request when its context is cancelled, nor, by default, at
// its deadline. So f runs on a goroutine of its own, with a context that ends at end alone; the client's timeouts end it
// where that has no effect. The goroutine is spared where the client keeps to end and there is nothing else to wait for.
func (b *Backend) await(
	ctx context.Context, end time.Time, grace time.Duration, late func(), f func(context.Context) (any, error),
) (any, error) {
	if !b.calls.Begin() {
		return nil, backend.ErrClosed
	}
	begun := time.Now()
	fctx := deadlineContext{context.WithoutCancel(ctx), end}
	run := func() (any, error) {
		v, err := f(fctx)
		if err != nil && fctx.Err() != nil {
			err = noAnswer(time.Since(begun), err)
		}
		return v, err
	}
	if b.inline && ctx.Done() == nil {
		defer b.calls.End()
		var cancel context.CancelFunc
		fctx, cancel = endingAt(fctx.Context, end)
		defer cancel()
		return run()
	}
	var settled atomic.Bool // by the one who comes first: the answer, or the one who gives up
	answer := make(chan result, 1)
	go func() {
		defer b.calls.End()
		v, err := run()
		taken := settled.CompareAndSwap(false, true)
		answer <- result{v, err}
		if !taken && late != nil {
			late()
		}
	}()
	t := time.NewTimer(time.Until(end))
	defer t.Stop()
	select {
	case r := <-answer:
		return r.v, r.err
	case <-t.C:
	case <-ctx.Done():
		t.Reset(min(grace, time.Until(end)))
		select {
		case r := <-answer:
			return r.v, r.err
		case <-t.C:
		}
	}
	if !settled.CompareAndSwap(false, true) {
		r := <-answer
		return r.v, r.err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, noAnswer(time.Since(begun), nil)
}

// A deadlineContext has a deadline, which go-redis sets on the connection, and no timer of its own.
type deadlineContext struct {
	context.Context
	end time.Time
}

func (c deadlineContext) Deadline() (time.Time, bool) { return c.end, true }

func (c deadlineContext) Err() error {
	if time.Now().Before(c.end) {
		return nil
	}
	return context.DeadlineExceeded
}

// endingAt returns a context with a deadline that ends then, too: go-redis waits for a connection until its context is done.
func endingAt(ctx context.Context, end time.Time) (deadlineContext, context.CancelFunc) {
	ctx, cancel := context.WithDeadline(ctx, end)
	return deadlineContext{ctx, end}, cancel
}

// endsRequests reports whether a client with these options sets the deadlines of contexts on its connections.
func endsRequests(o *redis.Options) bool {
	return o.ContextTimeoutEnabled && o.ReadTimeout >= 0 && o.WriteTimeout >= 0
}

// deliver makes a request once.
func (b *Backend) deliver(ctx context.Context, end time.Time, q request) (any, error) {
	switch {
	case q.ack && b.options.MinReplicas > 0:
		return b.await(ctx, end, q.grace, q.late, func(ctx context.Context) (any, error) { return b.sendAcked(ctx, q) })
	case b.lanes == nil:
		return b.await(ctx, end, q.grace, q.late, func(ctx context.Context) (any, error) { return q.run(ctx, b.client) })
	}
	if !b.calls.Begin() {
		return nil, backend.ErrClosed
	}
	defer b.calls.End()
	return b.lanes.do(ctx, end, q)
}

// A processor is a client of go-redis, or a pipeline of one.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// run asks for the script by its digest, and sends its text only to a server that does not know it.
func (q request) run(ctx context.Context, c processor) (any, error) {
	for _, text := range []bool{false, true} {
		cmd := q.command(ctx, text)
		_ = c.Process(ctx, cmd) // the command has its error
		v, err := cmd.Result()
		if text || !isNoScript(err) {
			return v, err
		}
	}
	panic("unreachable")
}

// A command is one that go-redis does not make again by itself, whatever the client's options are: we do that, and know then
// what may have been carried out twice.
type command struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (command) NoRetry() bool { return true }

// command is the request as a command of go-redis.
func (q request) command(ctx context.Context, text bool) command {
	args := make([]any, 0, 3+len(q.keys)+len(q.args))
	if text {
		args = append(args, "eval", q.script.text)
	} else {
		args = append(args, "evalsha", q.script.digest)
	}
	args = append(args, len(q.keys))
	for _, k := range q.keys {
		args = append(args, k)
	}
	cmd := redis.NewCmd(ctx, append(args, q.args...)...)
	const firstKey = 3
	cmd.SetFirstKeyPos(firstKey)
	return command{cmd}
}

// isReply reports whether err is what a server answered, so that the outcome is known.
func isReply(err error) bool {
	var e redis.Error
	return errors.As(err, &e)
}

// definite reports whether err tells that the request was not carried out. single tells that the client makes one attempt of each.
func definite(err error, single bool) bool {
	var op *net.OpError
	var none notSentError
	switch {
	case isReply(err), backend.Definite(err), errors.As(err, &none):
		return true
	case single: // nothing was sent in this attempt, nor by the client in one before it
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
