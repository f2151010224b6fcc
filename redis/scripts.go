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
	renewScript   = script("c033c8c8a27fcb55bfc3fc8616a77906d16a2e89", "renew", "readers", "renew_readers")
	inspectScript = script("7d5926ad4613089893d1de036e6dc27070a0b16c", "readers", "inspect")
)
