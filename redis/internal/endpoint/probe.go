package endpoint

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/anylock/lock/backend"
	"github.com/anylock/lock/redis/internal/exchange"
)

//go:embed probe.lua
var probeLua string

var ProbeScript = exchange.Script{Text: probeLua, Digest: "bac9d7e8a1e5ec1fea28033af74f2e90ed0b084a"}

// Probe makes the server run commands: all commands that scripts need. If the server lacks or forbids any, Probe fails
// with ErrUnsupported, which names them. It leaves no keys behind, and ignores errors of a server that is temporarily
// unable to serve.
func Probe(ctx context.Context, c redis.UniversalClient, keys []string, channel string, commands []string) error {
	args := []any{channel}
	for _, command := range commands {
		args = append(args, command)
	}
	pipe := c.Pipeline()
	eval := pipe.Eval(ctx, ProbeScript.Text, keys, args...)
	evalsha := pipe.EvalSha(ctx, ProbeScript.Digest, keys)
	if _, err := pipe.Exec(ctx); err != nil && !exchange.IsReply(err) {
		return err
	}
	failed, _ := eval.Val().([]any)
	for _, sent := range []*redis.Cmd{eval, evalsha} {
		if err := sent.Err(); err != nil && !exchange.IsNoScript(err) && !exchange.Passing(err) {
			failed = append(failed, strings.ToUpper(sent.Name()), err.Error())
		}
	}
	var missing []string
	for i := 0; i+1 < len(failed); i += 2 {
		command, reason := fmt.Sprint(failed[i]), fmt.Sprint(failed[i+1])
		// A user without the channels can acquire locks, but an Acquire that has to wait fails.
		if !exchange.PassingText(reason) && !(command == "PUBLISH" && strings.Contains(reason, "channel")) {
			missing = append(missing, fmt.Sprintf("%s (%s)", command, reason))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: the server lacks or forbids commands that locks need: %s", backend.ErrUnsupported,
			strings.Join(missing, ", "))
	}
	return nil
}
