package redis

import (
	_ "embed"

	"github.com/anylock/lock/redis/internal/exchange"
)

//go:embed acquire_arguments.lua
var acquireArgumentsLua string

//go:embed acquire_free.lua
var acquireFreeLua string

//go:embed enqueue.lua
var enqueueLua string

//go:embed acquire.lua
var acquireLua string

//go:embed acquire_readers.lua
var acquireReadersLua string

//go:embed acquire_shared_free.lua
var acquireSharedFreeLua string

//go:embed acquire_shared.lua
var acquireSharedLua string

//go:embed release_arguments.lua
var releaseArgumentsLua string

//go:embed release_free.lua
var releaseFreeLua string

//go:embed release.lua
var releaseLua string

//go:embed release_readers.lua
var releaseReadersLua string

//go:embed release_shared_free.lua
var releaseSharedFreeLua string

//go:embed release_shared.lua
var releaseSharedLua string

//go:embed reserve.lua
var reserveLua string

//go:embed readers.lua
var readersLua string

//go:embed admit.lua
var admitLua string

//go:embed renew.lua
var renewLua string

//go:embed renew_shared.lua
var renewSharedLua string

//go:embed inspect.lua
var inspectLua string

// The scripts of exclusive leases return before a function is made if the key is uncontended, and before those for readers are made if
// there are none.
var (
	acquireScript = exchange.Script{
		Text: acquireArgumentsLua + acquireFreeLua + reserveLua + enqueueLua + acquireLua +
			readersLua + admitLua + acquireReadersLua,
		Digest: "bbfbd267e542e3918fe850c9338a734b122e1d2c",
	}
	acquireSharedScript = exchange.Script{
		Text:   acquireArgumentsLua + acquireSharedFreeLua + reserveLua + enqueueLua + readersLua + admitLua + acquireSharedLua,
		Digest: "67853586cff30c22c96fb70229a0d161bb37789c",
	}
	releaseScript = exchange.Script{
		Text: releaseArgumentsLua + releaseFreeLua + reserveLua + releaseLua +
			readersLua + admitLua + releaseReadersLua,
		Digest: "dea06d93fb8bd66ca1892e04e707f17c74a5500a",
	}
	releaseSharedScript = exchange.Script{
		Text:   releaseArgumentsLua + releaseSharedFreeLua + reserveLua + readersLua + admitLua + releaseSharedLua,
		Digest: "362020bfb047a14b34d868e12d4579838b835e20",
	}
	renewScript       = exchange.Script{Text: renewLua, Digest: "31ca59165ecb132de863747a47deacda9f318fd8"}
	renewSharedScript = exchange.Script{Text: readersLua + renewSharedLua, Digest: "2cdb33c587751598c56aa819b4b747bc0ee23180"}
	inspectScript     = exchange.Script{Text: readersLua + inspectLua, Digest: "d865d26f4d0d71930da0074d8406aa2d39fa4d1b"}
)
