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
	acquireScript   = script("88fb1f443318d543fe2dc553a2c4b17e4ffbcb3a", "acquire")
	confirmScript   = script("619e6749e194cd4fc8434fa4b601441f16763804", "confirm")
	renewScript     = script("dbd226c180504ad0fddf18c78c3664bf945bcf9e", "renew")
	repairScript    = script("294b4c08d47f40839454eadf8c0f06794a654de2", "repair")
	releaseScript   = script("065d373dff7fd2ed527917a39dbd833ce361d588", "release")
	inspectScript   = script("e64a5440df03b355cc968e4cb59d099e18e8296a", "inspect")
)

// scriptCommands are the commands that scripts run.
var scriptCommands = []string{
	"SET lock 1 PX 1000", "GET lock", "PTTL lock", "PEXPIRE lock 1000", "TIME", "INFO server", "DEL lock",
}
