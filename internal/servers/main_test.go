package servers

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// portEnv, if set to a port, makes the test binary run as the child of TestKilledTestLeavesNoServer.
const portEnv = "ANYLOCK_SERVERS_CHILD_PORT"

// hiddenEnv, if set, hides the machine's Redis from the test binary.
const hiddenEnv = "ANYLOCK_SERVERS_HIDDEN"

func TestMain(m *testing.M) {
	if os.Getenv(hiddenEnv) != "" {
		redisKind.find = func(testing.TB) (string, bool) { return "", false }
	}
	if port := os.Getenv(portEnv); port != "" {
		serve(port)
		return
	}
	goleak.VerifyTestMain(m)
}

// serve runs a server in the current folder until this process is killed.
func serve(port string) {
	program, _ := redisKind.find(nil)
	args, _ := redisSpec{}.command(place{port: port})
	if err := newProcess(program, ".", args...).start(); err != nil {
		fmt.Println(err)
		return
	}
	time.Sleep(time.Minute) // sleeps: until the test kills this process
}
