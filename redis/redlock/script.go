package redlock

import (
	"github.com/anylock/lock/redis/internal/exchange"

	_ "embed"
)

//go:embed prelude.lua
var prelude string

//go:embed handshake.lua
var handshakeLua string

//go:embed acquire.lua
var acquireLua string

//go:embed confirm.lua
var confirmLua string

//go:embed renew.lua
var renewLua string

//go:embed repair.lua
var repairLua string

//go:embed release.lua
var releaseLua string

//go:embed inspect.lua
var inspectLua string

var (
	handshakeScript = exchange.Script{Text: prelude + handshakeLua, Digest: "f0b7539c8de97af809098c1d261a17a5b8e40c69"}
	acquireScript   = exchange.Script{Text: prelude + acquireLua, Digest: "3294f0acbc340307c730b75b962fccb05b6f40ec"}
	confirmScript   = exchange.Script{Text: prelude + confirmLua, Digest: "2649b1ad7d663b77f59af515e3ea446c99c3ac7f"}
	renewScript     = exchange.Script{Text: prelude + renewLua, Digest: "886d68f18a3960c440bf5b0d1c9f6bfe863d49d2"}
	repairScript    = exchange.Script{Text: prelude + repairLua, Digest: "15482dbb925a5c3c522aa95a9e5081e22844f923"}
	releaseScript   = exchange.Script{Text: prelude + releaseLua, Digest: "fa4bf6edabd45bf9ea6871e553e307e294fdabd2"}
	inspectScript   = exchange.Script{Text: prelude + inspectLua, Digest: "3d505bc89b476fe5fa12f58f69b7b43f8793d004"}
)

// scriptCommands are the commands that scripts run.
var scriptCommands = []string{
	"SET lock 1 PX 1000", "GET lock", "PTTL lock", "PEXPIRE lock 1000", "TIME", "INFO server", "DEL lock",
}
