package redis

import (
	"context"
	_ "embed"
	"errors"

	"github.com/redis/go-redis/v9"
)

// A script is Lua that runs in the server in one step. The digests are constants, so that no build changes what is asked
// for (in a FIPS build SHA-1 may be missing); a test compares them with the text.
type script struct{ text, digest string }

//go:embed prelude.lua
var prelude string

//go:embed acquire.lua
var acquireLua string

//go:embed renew.lua
var renewLua string

//go:embed release.lua
var releaseLua string

//go:embed inspect.lua
var inspectLua string

var (
	acquireScript = script{prelude + acquireLua, "8d35ffefddbc2f169777975c4db705d5cb6b5783"}
	renewScript   = script{prelude + renewLua, "85318285350e9476fbc09ed77169938e5219d755"}
	releaseScript = script{prelude + releaseLua, "68b79d6e623b23ea28868076828fadcbf15513d0"}
	inspectScript = script{prelude + inspectLua, "5cddfa94b1e24aca111a22ccda9705e446b2f7c9"}
)

// run asks for the script by its digest, and sends its text only to a server that does not know it yet, as after a
// restart, a failover or SCRIPT FLUSH.
func (s script) run(ctx context.Context, c redis.Scripter, keys []string, args []any) (any, error) {
	v, err := c.EvalSha(ctx, s.digest, keys, args...).Result()
	if isNoScript(err) {
		v, err = c.Eval(ctx, s.text, keys, args...).Result()
	}
	return v, err
}

func isNoScript(err error) bool {
	return err != nil && (errors.Is(err, redis.ErrNoScript) || redis.HasErrorPrefix(err, "NOSCRIPT"))
}
