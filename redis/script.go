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

//go:embed acquire_free.lua
var acquireFreeLua string

//go:embed acquire.lua
var acquireLua string

//go:embed renew.lua
var renewLua string

//go:embed release_held.lua
var releaseHeldLua string

//go:embed release.lua
var releaseLua string

//go:embed inspect.lua
var inspectLua string

var (
	acquireScript = script{acquireFreeLua + prelude + acquireLua, "58bac8951e58e5115451d8a9445de5ab26898fbc"}
	renewScript   = script{prelude + renewLua, "12c39d56040dae3ba24c416ea129a0de7290d264"}
	releaseScript = script{releaseHeldLua + prelude + releaseLua, "31d028ee9b0d8f7f5149129167768ea9e29b7f34"}
	inspectScript = script{prelude + inspectLua, "7f6a14a42c937ccef9595b9c9f401e59b9b1f7c6"}
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
