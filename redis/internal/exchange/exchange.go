// Package exchange sends scripts and commands to one Redis server and reads what it answers.
package exchange

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Request is one script on the keys of one slot, or, with no script, the command that args spell.
type Request struct {
	Script   Script
	Keys     []string
	Args     []any
	Again    []any // replaces Args after an attempt without a reply; nil for Args
	Replicas int   // that must have the grant or renewal; 0 for none
	// Kept reports whether a reply needs replicas: whether it is a grant or a renewal. It is required if Replicas is
	// not 0.
	Kept func(v any) bool
	// Grace is how long to wait for the reply after the caller's context has ended: the reply nearly always arrives in
	// that time, and a known outcome is cleaned up at once and for good.
	Grace time.Duration
	Limit time.Duration // for all attempts, if shorter than Options.Timeout
	// Late runs when a request ends after its caller has stopped waiting.
	Late func()
}

type Result struct {
	V   any
	Err error
}

// A Sender is a client of go-redis.
type Sender interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// Send sends requests in one pipeline. It names a script by its digest, and sends the text only to a server that does
// not know the script, for example after a restart, a failover or SCRIPT FLUSH. WAIT follows requests that need
// replicas, because WAIT refers to earlier commands of its own connection; if too few replicas acknowledge, the result
// has a reply and ErrReplicas. If ctx ends a request, its error is ErrNoAnswer: the error of ctx would be mistaken for
// that of the caller's context.
func Send(ctx context.Context, c Sender, list []Request) []Result {
	begun := time.Now()
	results := make([]Result, len(list))
	todo := make([]int, len(list))
	replicas := 0
	for i, q := range list {
		todo[i] = i
		replicas = max(replicas, q.Replicas)
	}
	for _, text := range []bool{false, true} {
		cmds := make([]command, len(todo))
		for k, i := range todo {
			cmds[k] = list[i].command(ctx, text)
		}
		failed, short := send(ctx, c, cmds, replicas)
		unknown := todo[:0]
		for k, i := range todo {
			v, err := cmds[k].Result()
			switch {
			case v == nil && err == nil: // a hook of the client blocked the request
				err = failed
			case err == nil && short != nil && list[i].Kept(v):
				err = short
			case !text && IsNoScript(err):
				unknown = append(unknown, i)
			case err != nil && !IsReply(err) && ctx.Err() != nil:
				err = NoAnswer(time.Since(begun), err)
			}
			results[i] = Result{v, err}
		}
		if todo = unknown; len(todo) == 0 {
			break
		}
	}
	return results
}

// DefaultTimeout bounds a request that has no other bound.
const DefaultTimeout = 2 * time.Second

// send sends commands, and sets the error of each. If the connection breaks in between, all commands get an error,
// including those whose replies have arrived: their outcomes are unknown, and they are sent again.
func send(ctx context.Context, c Sender, cmds []command, replicas int) (failed, short error) {
	if len(cmds) == 1 && replicas == 0 {
		return c.Process(ctx, cmds[0]), nil
	}
	pipe := c.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd)
	}
	if replicas == 0 {
		_, failed = pipe.Exec(ctx)
		return failed, nil
	}
	remaining := DefaultTimeout
	if d, ok := ctx.Deadline(); ok {
		remaining = time.Until(d)
	}
	// Half of the remaining time, so that the reply to WAIT arrives. 0 would wait forever.
	wait := pipe.Do(ctx, "WAIT", replicas, max(remaining.Milliseconds()/2, 1))
	_, failed = pipe.Exec(ctx)
	acks, short := wait.Int64()
	switch {
	case IsReply(short): // the error of WAIT: the request itself may have run
		short = fmt.Errorf("%w: %v", ErrReplicas, short)
	case short == nil && acks < int64(replicas):
		short = fmt.Errorf("%w: %d of %d", ErrReplicas, acks, replicas)
	}
	return failed, short
}

// A command is never retried by go-redis, whatever the client's options are: this package retries, and knows which
// commands may have run twice.
type command struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder].
func (command) NoRetry() bool { return true }

// command is the request as a command of go-redis.
func (q *Request) command(ctx context.Context, text bool) command {
	if q.Script.Text == "" {
		return command{redis.NewCmd(ctx, q.Args...)}
	}
	args := make([]any, 0, 3+len(q.Keys)+len(q.Args))
	if text {
		args = append(args, "eval", q.Script.Text)
	} else {
		args = append(args, "evalsha", q.Script.Digest)
	}
	args = append(args, len(q.Keys))
	for _, k := range q.Keys {
		args = append(args, k)
	}
	cmd := redis.NewCmd(ctx, append(args, q.Args...)...)
	const firstKey = 3
	cmd.SetFirstKeyPos(firstKey)
	return command{cmd}
}

// A Script is Lua code that the server runs atomically. Digests are constants, so that they do not depend on the build
// (a FIPS build may lack SHA-1); a test compares them with the text.
type Script struct{ Text, Digest string }

func IsNoScript(err error) bool {
	return err != nil && (errors.Is(err, redis.ErrNoScript) || redis.HasErrorPrefix(err, "NOSCRIPT"))
}

// ScriptLeases is the most leases in one run of the script, which blocks the server for some 0.1 ms.
const ScriptLeases = 64
