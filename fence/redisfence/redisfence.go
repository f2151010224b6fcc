// Package redisfence checks fencing tokens in Redis, in the same script as the write. Package fence describes what this
// guarantees.
package redisfence

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/fence"
)

//go:embed fence.lua
var check string

// A Script checks a token, and then runs a Lua script. It is safe for concurrent use.
type Script struct{ script *redis.Script }

// NewScript returns the script that checks the token, and then runs body. KEYS and ARGV of body begin at 1 with its own
// keys and arguments. body may return any value.
func NewScript(body string) *Script {
	return &Script{redis.NewScript(check + body)}
}

// Run runs the script's body with keys and args for the holder of an exclusive lease. If fenceKey has seen a higher
// token, exclusive or shared, the body does not run, and the command's error is a *fence.StaleError. Other errors are
// those of go-redis. The token counts as seen even if the body fails. c is a client, not a pipeline.
//
// The highest tokens are kept in fenceKey without a TTL. They are lost only if an operator deletes the key, an
// allkeys-… policy evicts the key, or Redis loses recent writes. Redis may lose writes by a restart without
// persistence, or by a failover to a replica that lags behind. In a cluster fenceKey and keys need one hash tag, as in
// {account/7}:fence and {account/7}:balance.
//
// After a network error go-redis may send the script again, as with every command, unless MaxRetries is -1.
func (s *Script) Run(
	ctx context.Context, c redis.Scripter, fenceKey string, token uint64, keys []string, args ...any,
) *redis.Cmd {
	return s.run(ctx, c, fenceKey, "", token, keys, args)
}

// RunShared is like Run for the holder of a shared lease: it refuses the token only if a higher exclusive one has been
// seen.
func (s *Script) RunShared(
	ctx context.Context, c redis.Scripter, fenceKey string, token uint64, keys []string, args ...any,
) *redis.Cmd {
	return s.run(ctx, c, fenceKey, "s", token, keys, args)
}

func (s *Script) run(
	ctx context.Context, c redis.Scripter, fenceKey, mode string, token uint64, keys []string, args []any,
) *redis.Cmd {
	if err := fence.Compare(fenceKey, token, 0); err != nil {
		cmd := redis.NewCmd(ctx)
		cmd.SetErr(err)
		return cmd
	}
	all := append([]any{mode + strconv.FormatUint(token, 10)}, args...)
	cmd := s.script.Run(ctx, c, append([]string{fenceKey}, keys...), all...)
	switch err := cmd.Err(); {
	case redis.HasErrorPrefix(err, noToken): // its text has the key as it is, which may not be printable
		cmd.SetErr(fmt.Errorf("redisfence: the key %q holds no token", fenceKey))
	case redis.HasErrorPrefix(err, stale):
		if seen, bad := strconv.ParseUint(strings.TrimPrefix(err.Error(), stale), 10, 64); bad == nil {
			cmd.SetErr(&fence.StaleError{Resource: fenceKey, Token: token, Seen: seen})
		}
	}
	return cmd
}

// stale is the prefix of the reply to a stale token. The higher token follows it.
const stale = "FENCESTALE "

// noToken is the prefix of the reply if the value of the fence key is not a token.
const noToken = "NOFENCE "
