// Package exchange sends scripts and commands to Redis, and parses the replies.
package exchange

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Request is one script on the keys of one slot, as [Script.Request] returns it, or the command in Args.
type Request struct {
	Args      []any
	RepeatArg string // replaces the last of Args after an attempt without a reply; if empty, Args is sent again
	Replicas  int    // replicas that must have the grant or renewal; 0 for none
	// NeedsReplicas reports whether a reply is a grant or a renewal. Other replies count without replicas. It is required
	// if Replicas is not 0.
	NeedsReplicas func(v any) bool
	// Grace is how long to wait for the reply after the caller's context has ended. The reply nearly always arrives in
	// that time, and if the outcome is known, one cleanup request is enough.
	Grace time.Duration
	Limit time.Duration // for this one of several requests that are sent together
	// OnLateEnd runs when a request ends after its caller has stopped waiting.
	OnLateEnd func()

	text string // of the script whose digest is in Args; empty for a command
}

const firstKey = 3 // index in a script's Args

// FirstKey returns the first key of a script's request.
func (q *Request) FirstKey() string { return q.Args[firstKey].(string) }

type Result struct {
	V   any
	Err error
}

// A Sender is a client of go-redis.
type Sender interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// Send sends requests in one pipeline. It sends the digest of a script, and the text only if the server does not know
// the script, for example after a restart, a failover or SCRIPT FLUSH. WAIT follows requests that need replicas,
// because WAIT refers to earlier commands of its own connection. If too few replicas acknowledge, the result has both a
// reply and ErrReplicas. If ctx ends a request, its error is ErrNoAnswer, because callers would mistake the error of
// ctx for that of their own context.
func Send(ctx context.Context, c Sender, list []Request) []Result {
	calls := make([]*call, len(list))
	for i, q := range list {
		calls[i] = &call{request: q}
	}
	sendCalls(ctx, c, calls)
	results := make([]Result, len(list))
	for i, call := range calls {
		results[i] = call.result
	}
	return results
}

// sendCalls sends calls as Send does, and sets their results.
func sendCalls(ctx context.Context, c Sender, calls []*call) {
	begun := time.Now()
	unknown := sendOnce(ctx, c, calls, false, begun)
	if len(unknown) > 0 {
		sendOnce(ctx, c, unknown, true, begun)
	}
}

// sendOnce sends calls once. If text is true, it sends the text of scripts instead of their digests. It returns the
// calls whose script the server does not know.
func sendOnce(ctx context.Context, c Sender, calls []*call, text bool, begun time.Time) (unknown []*call) {
	replicas := 0
	for _, q := range calls {
		q.command = q.request.command(ctx, text)
		replicas = max(replicas, q.request.Replicas)
	}
	failed, short := transmit(ctx, c, calls, replicas)
	for _, q := range calls {
		v, err := q.command.Result()
		switch {
		case v == nil && err == nil: // a hook of the client blocked the request
			err = failed
		case err == nil && short != nil && q.request.NeedsReplicas(v):
			err = short
		case !text && IsNoScript(err):
			unknown = append(unknown, q)
		case err != nil && !IsReply(err) && ctx.Err() != nil:
			err = NoAnswer(time.Since(begun), err)
		}
		q.result, q.command = Result{v, err}, command{}
	}
	return unknown
}

// DefaultTimeout is the time limit of a request if Options.Timeout is zero.
const DefaultTimeout = 2 * time.Second

// transmit sends the commands of calls, and sets the error of each. failed is the error of the pipeline, and short that
// of WAIT. If the connection breaks in between, all commands get an error, including those whose replies have arrived:
// their outcomes are unknown, and callers send them again.
func transmit(ctx context.Context, c Sender, calls []*call, replicas int) (failed, short error) {
	if len(calls) == 1 && replicas == 0 {
		return c.Process(ctx, calls[0].command), nil
	}
	pipe := c.Pipeline()
	commands := make([]redis.Cmder, len(calls))
	for i, q := range calls {
		commands[i] = q.command
	}
	_ = pipe.BatchProcess(ctx, commands...)
	if replicas == 0 {
		_, failed = pipe.Exec(ctx)
		return failed, nil
	}
	// Half of the remaining time, so that the reply to WAIT arrives in time. 0 would wait forever.
	end, _ := ctx.Deadline() // of a DeadlineContext
	wait := pipe.Do(ctx, "WAIT", replicas, max(time.Until(end).Milliseconds()/2, 1))
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

// command returns the request as a go-redis command, with the text of its script if text is true.
func (q *Request) command(ctx context.Context, text bool) command {
	args := q.Args
	if text {
		args = slices.Clone(args)
		args[0], args[1] = "eval", q.text
	}
	return command{redis.NewCmd(ctx, args...)}
}

// A Script is Lua code that the server runs atomically. Digests are constants, so that they do not depend on the build
// (a FIPS build may lack SHA-1); a test compares them with the text.
type Script struct{ Text, Digest string }

// LoadScript joins parts, which are the names of files without their extension.
func LoadScript(files embed.FS, digest string, parts ...string) Script {
	s := Script{Digest: digest}
	for _, part := range parts {
		text, err := files.ReadFile(part + ".lua")
		if err != nil {
			panic(err)
		}
		s.Text += string(text)
	}
	return s
}

// Request returns a request that runs the script.
func (s Script) Request(keys []string, args ...any) Request {
	all := make([]any, 0, firstKey+len(keys)+len(args))
	all = append(all, "evalsha", s.Digest, len(keys))
	for _, k := range keys {
		all = append(all, k)
	}
	return Request{Args: append(all, args...), text: s.Text}
}

func IsNoScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// ScriptLeases is the most leases that one script renews. Such a script blocks the server for about 0.1 ms.
const ScriptLeases = 64
