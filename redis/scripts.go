package redis

import (
	_ "embed"

	"github.com/anylock/lock/redis/internal/exchange"
)

//go:embed acquire_free.lua
var acquireFreeLua string

//go:embed acquire.lua
var acquireLua string

//go:embed release_free.lua
var releaseFreeLua string

//go:embed release.lua
var releaseLua string

//go:embed reserve.lua
var reserveLua string

//go:embed renew.lua
var renewLua string

//go:embed inspect.lua
var inspectLua string

// The scripts for uncontended keys come first, and return before a function is made.
var (
	acquireScript = exchange.Script{
		Text: acquireFreeLua + reserveLua + acquireLua, Digest: "01c658e7df8bd50505e09dc47d5502b503f406a1",
	}
	releaseScript = exchange.Script{
		Text: releaseFreeLua + reserveLua + releaseLua, Digest: "54bf2bef694866f7302b860b04c46445b3530808",
	}
	renewScript   = exchange.Script{Text: renewLua, Digest: "31ca59165ecb132de863747a47deacda9f318fd8"}
	inspectScript = exchange.Script{Text: inspectLua, Digest: "e89493a43916a7d80755c903f1d092cf261483c2"}
)
