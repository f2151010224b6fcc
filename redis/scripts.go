package redis

import (
	"embed"

	"github.com/anylock/lock/redis/internal/exchange"
)

//go:embed *.lua
var lua embed.FS

func script(digest string, parts ...string) exchange.Script {
	return exchange.LoadScript(lua, digest, parts...)
}

// If the key is uncontended, a script returns before it creates any Lua function. If the key has no readers, the
// scripts of exclusive leases return before they create the functions for readers.
var (
	acquireScript = script("15a4e8cc099060a8b90a192515e771f3ae5f2ea9",
		"acquire_arguments", "acquire_free", "reserve", "enqueue", "acquire", "readers", "admit", "acquire_readers")
	acquireSharedScript = script("9ae531d60f40c893c25dba2c3843c9ed0717579e",
		"acquire_arguments", "acquire_shared_free", "reserve", "enqueue", "readers", "admit", "acquire_shared")
	releaseScript = script("e80eb39b4f054ebd66818ce59550c8151781cbfb",
		"release_arguments", "release_free", "reserve", "release", "readers", "admit", "release_readers")
	releaseSharedScript = script("1032f81a9119fcf46ae440970d08c74bdb09d0d4",
		"release_arguments", "release_shared_free", "reserve", "readers", "admit", "release_shared")
	renewScript       = script("95e4ed60f6a5dd0bffe93a78ed134fb54ab020de", "renew")
	renewSharedScript = script("04e0b8f550b34459de5c6ffddaf4bff2c5182796", "readers", "renew_shared")
	resumeScript      = script("5b40f8b0f02a4be270e8be6764c1fe005cbca167", "readers", "resume")
	inspectScript     = script("7d5926ad4613089893d1de036e6dc27070a0b16c", "readers", "inspect")
)
