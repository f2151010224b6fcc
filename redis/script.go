package redis

import (
	_ "embed"

	"github.com/anylock/lock/redis/internal/exchange"
)

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
	acquireScript = exchange.Script{Text: prelude + acquireLua, Digest: "1aa8be49da9b9181d14799d5fe3775da3ec7dcf1"}
	renewScript   = exchange.Script{Text: prelude + renewLua, Digest: "76e1315e07c54ad91e4fc61d69da89523fd229ab"}
	releaseScript = exchange.Script{Text: prelude + releaseLua, Digest: "2bfeaf34b5e8649c5841512e5c17de6e52deecb8"}
	inspectScript = exchange.Script{Text: prelude + inspectLua, Digest: "7f6a14a42c937ccef9595b9c9f401e59b9b1f7c6"}
)
