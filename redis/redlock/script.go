package redlock

import (
	"embed"

	"github.com/anylock/lock/redis/internal/exchange"
)

//go:embed *.lua
var lua embed.FS

func script(digest, name string) exchange.Script {
	return exchange.LoadScript(lua, digest, "prelude", name)
}

var (
	handshakeScript = script("69c435d5428ca947646906cd854aad70370763cd", "handshake")
	acquireScript   = script("3294f0acbc340307c730b75b962fccb05b6f40ec", "acquire")
	confirmScript   = script("2649b1ad7d663b77f59af515e3ea446c99c3ac7f", "confirm")
	renewScript     = script("886d68f18a3960c440bf5b0d1c9f6bfe863d49d2", "renew")
	repairScript    = script("15482dbb925a5c3c522aa95a9e5081e22844f923", "repair")
	releaseScript   = script("fa4bf6edabd45bf9ea6871e553e307e294fdabd2", "release")
	inspectScript   = script("3d505bc89b476fe5fa12f58f69b7b43f8793d004", "inspect")
)

// scriptCommands are the commands that scripts run.
var scriptCommands = []string{
	"SET lock 1 PX 1000", "GET lock", "PTTL lock", "PEXPIRE lock 1000", "TIME", "INFO server", "DEL lock",
}
