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

//go:embed release.lua
var releaseLua string

//go:embed inspect.lua
var inspectLua string

var (
	acquireScript = script{acquireFreeLua + prelude + acquireLua, "8cb74b00852e98e3273e8eb49337505c61ecee8c"}
	renewScript   = script{prelude + renewLua, "3158282f2eecc8149cb2c67626029388ec65ee4c"}
	releaseScript = script{prelude + releaseLua, "0971a00d5fc7b0b746c98a660c43a5aa4593ab12"}
	inspectScript = script{prelude + inspectLua, "2b19fe38057b5d7ce1b8e54006fd6cdfe398af1b"}
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
