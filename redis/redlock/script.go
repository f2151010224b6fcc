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
	handshakeScript = script("4f95b7f63966986ec75790ecdbf71aae8c3ce812", "handshake")
	acquireScript   = script("1bf45a246862917f78b8f4b2ecf5937de46d7a0a", "acquire")
	renewScript     = script("1adc5e20c68b26736285266eb6d3f09197740c42", "renew")
	repairScript    = script("294b4c08d47f40839454eadf8c0f06794a654de2", "repair")
	releaseScript   = script("065d373dff7fd2ed527917a39dbd833ce361d588", "release")
	inspectScript   = script("e64a5440df03b355cc968e4cb59d099e18e8296a", "inspect")
)

// scriptCommands are the commands that scripts run.
var scriptCommands = []string{
	"SET lock 1 PX 1000", "GET lock", "PTTL lock", "PEXPIRE lock 1000", "TIME", "INFO server", "DEL lock",
}
