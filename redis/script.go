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
	acquireScript = script{prelude + acquireLua, "d319153c353f1050f2bcbbf4edd2cf9a7c1d4507"}
	renewScript   = script{prelude + renewLua, "d50e6fdfb5edb26366fa5ca0be2e31bd3d8eaf74"}
	releaseScript = script{prelude + releaseLua, "99104311101e5fb16598b0541898edea14697f08"}
	inspectScript = script{prelude + inspectLua, "3fd0ae2db09f2273669c943dfcf5c584e14c8552"}
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
