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
	Replicas int // that must have what it granted or renewed; 0 for none
	// kept reports whether an answer tells of something that the replicas must have. It is needed where there are replicas.
	Kept func(v any) bool
	// grace is how long to wait for the answer after the caller's context has ended: it nearly always comes in that
	// time, and an outcome that is known is cleaned up at once and for good.
	Grace time.Duration
	Limit time.Duration // for all attempts, if shorter than Options.Timeout
	// late runs if an attempt was given up before it had ended, when it has ended.
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

// Send makes requests in one pipeline. A script is asked for by its digest; its text is sent only to a server that does not know
// it, as after a restart, a failover or SCRIPT FLUSH. Behind requests that ask for replicas goes WAIT, because it speaks of
// what its own connection has done before: an answer that too few replicas have comes with ErrReplicas. What ctx has ended is
// ErrNoAnswer: its own error would be taken for the caller's.
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
			case v == nil && err == nil: // a hook of the client's kept it from the server
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

// send sends commands, each of which has its own error then. Where a connection broke in the middle all have one: also those whose
// answers had come are unknown then, and sent again.
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
	left := DefaultTimeout
	if d, ok := ctx.Deadline(); ok {
		left = time.Until(d)
	}
	// Half of the time that is left, so that its answer arrives. 0 would wait forever.
	wait := pipe.Do(ctx, "WAIT", replicas, max(left.Milliseconds()/2, 1))
	_, failed = pipe.Exec(ctx)
	acks, short := wait.Int64()
	switch {
	case IsReply(short): // it answers WAIT, and not the request, which may have been carried out
		short = fmt.Errorf("%w: %v", ErrReplicas, short)
	case short == nil && acks < int64(replicas):
		short = fmt.Errorf("%w: %d of %d", ErrReplicas, acks, replicas)
	}
	return failed, short
}

// A command is one that go-redis does not make again by itself, whatever the client's options are: we do that, and know then
// what may have been carried out twice.
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

// A Script is Lua that runs in the server in one step. The digests are constants, so that no build changes what is asked
// for (in a FIPS build SHA-1 may be missing); a test compares them with the text.
type Script struct{ Text, Digest string }

func IsNoScript(err error) bool {
	return err != nil && (errors.Is(err, redis.ErrNoScript) || redis.HasErrorPrefix(err, "NOSCRIPT"))
}

// ScriptLeases is the most leases in one run of the script, which blocks the server for some 0.1 ms.
const ScriptLeases = 64
